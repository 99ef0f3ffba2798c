use anyhow::bail;
use conifer_learn::config::{Config, schema};

use crate::cli::Config as Args;
use crate::output::{columns, print, print_json};

pub(crate) fn run(args: Args, as_json: bool) -> anyhow::Result<()> {
    match args {
        Args::Print { config, set } => {
            let config = Config::load(&config, &set)?.resolve()?;
            if as_json { print_json(&config) } else { print(&config.to_toml()) }
        }
        Args::Check { configs } => {
            let mut wrong = 0;
            for path in &configs {
                match Config::load(path, &[]).and_then(Config::resolve) {
                    Ok(_) => print(&format!("{}: right\n", path.display()))?,
                    Err(error) => {
                        wrong += 1;
                        eprintln!("{}: {error}", path.display());
                    }
                }
            }
            if wrong > 0 {
                bail!("{wrong} of {} configs are wrong", configs.len());
            }
            Ok(())
        }
        Args::Schema => {
            let mut rows = vec![["key", "type", "default", "meaning"].map(String::from).to_vec()];
            rows.extend(schema().into_iter().map(|row| vec![row.key, row.expected, row.default, row.meaning]));
            print(&columns(&rows))
        }
    }
}
