use anyhow::bail;
use conifer_train::config::{Config, schema};
use serde_json::json;

use crate::arguments::ConfigCommand;
use crate::output::{columns, note, print, print_json};

pub(crate) fn run(command: ConfigCommand, as_json: bool) -> anyhow::Result<()> {
    match command {
        ConfigCommand::Print { config, set } => {
            let config = match config {
                Some(config) => Config::load(&config, &set)?,
                None => Config::parse("the defaults", "", &set)?,
            };
            let config = config.resolve()?;
            if as_json { print_json(&config) } else { print(&config.to_toml()) }
        }
        ConfigCommand::Check { configs } => {
            let mut wrong = 0;
            let mut rows = Vec::new();
            for path in &configs {
                let error = Config::load(path, &[]).and_then(Config::resolve).err().map(|it| it.to_string());
                wrong += usize::from(error.is_some());
                match &error {
                    _ if as_json => rows.push(json!({ "config": path, "error": error })),
                    None => print(&format!("{}: valid\n", path.display()))?,
                    Some(error) => note(&format!("{}: {error}", path.display())),
                }
            }
            if as_json {
                print_json(&rows)?;
            }
            if wrong > 0 {
                bail!("{wrong} of {} configs are invalid", configs.len());
            }
            Ok(())
        }
        ConfigCommand::Schema if as_json => print_json(&schema()),
        ConfigCommand::Schema => {
            let mut rows = vec![["key", "type", "default", "meaning"].map(String::from).to_vec()];
            rows.extend(schema().into_iter().map(|row| vec![row.key, row.expected, row.default, row.meaning]));
            print(&columns(&rows))
        }
    }
}
