//! Command-line arguments of an embedding endpoint.

use anyhow::Context as _;
use clap::Args;
use conifer_search::EndpointSettings;

/// The embedding endpoint for the texts of queries, for a model that reads vectors.
#[derive(Args, Default)]
pub(crate) struct EndpointArgs {
    /// OpenAI-compatible endpoint that makes the vector of a text, for a model that reads vectors:
    /// `http://HOST:PORT[/PATH]`, where PATH is v1/embeddings if it is left out.
    #[arg(long, value_name = "URL", help_heading = "Query texts")]
    pub(crate) embedding_endpoint: Option<String>,
    /// Name of the model that the endpoint should use (`model` in its requests).
    #[arg(long, value_name = "NAME", requires = "embedding_endpoint", help_heading = "Query texts")]
    pub(crate) embedding_model: Option<String>,
    /// Environment variable with the key of the endpoint, sent as `Authorization: Bearer KEY`.
    #[arg(long, value_name = "VAR", requires = "embedding_endpoint", help_heading = "Query texts")]
    pub(crate) embedding_key_env: Option<String>,
}

impl EndpointArgs {
    /// The endpoint with the key from the environment; `None` if the command line has no endpoint.
    ///
    /// # Errors
    /// The variable with the key is not set.
    pub(crate) fn settings(&self) -> anyhow::Result<Option<EndpointSettings>> {
        let Some(url) = self.embedding_endpoint.clone() else { return Ok(None) };
        let key = self.embedding_key_env.as_deref().map(|name| {
            std::env::var(name).with_context(|| {
                format!("--embedding-key-env {name}: expected an environment variable with the key of the endpoint")
            })
        });
        Ok(Some(EndpointSettings { url, model: self.embedding_model.clone(), key: key.transpose()? }))
    }
}
