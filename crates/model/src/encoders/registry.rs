//! The macro behind the encoder table. Burn modules are not object-safe, so "any image encoder" has to be an enum. The
//! macro generates that enum from the table.

/// Generates from the table, for each tower, the tagged config enum and the module enum over its encoders, and
/// [`ENCODERS`].
macro_rules! encoders {
    ($(
        $(#[$config_doc:meta])* $Config:ident,
        $(#[$encoder_doc:meta])* $Encoder:ident,
        $Input:ty, $Reads:ty, $tower:expr, $field:literal,
        { $( $name:literal => $Variant:ident($Module:ty, $ModuleConfig:ty): $summary:literal, )+ }
    )+) => {
        /// Every encoder.
        pub const ENCODERS: &[EncoderEntry] = &[$($(
            EncoderEntry {
                name: $name,
                summary: $summary,
                tower: $tower,
                presets: || <$Module as Encoder>::PRESETS.iter().map(|(name, _)| *name).collect(),
            },
        )+)+];

        $(
            $(#[$config_doc])*
            #[allow(clippy::large_enum_variant, reason = "few values exist, each next to megabytes of weights")]
            #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
            #[serde(tag = "kind", try_from = "toml::Table")]
            pub enum $Config { $(
                #[doc = $summary]
                #[serde(rename = $name)]
                $Variant($ModuleConfig),
            )+ }

            $(#[$encoder_doc])*
            #[allow(clippy::large_enum_variant, reason = "few values exist, each next to megabytes of weights")]
            #[derive(Module, Debug)]
            pub enum $Encoder { $(
                #[doc = $summary]
                $Variant($Module),
            )+ }

            impl $Config {
                /// A named architecture.
                ///
                /// # Errors
                /// [`Error::Unknown`] with the known names.
                pub fn preset(name: &str) -> Result<Self> {
                    $(
                        let presets = <$Module as Encoder>::PRESETS;
                        if let Some((_, config)) = presets.iter().find(|(known, _)| *known == name) {
                            return Ok(Self::$Variant(config.clone()));
                        }
                    )+
                    Err(unknown_preset($tower, name))
                }

                /// The same architecture with one value replaced: `config.with("vocabulary", 600)`.
                ///
                /// # Errors
                /// [`Error::Invalid`] for an unknown key or an invalid value; [`Error::Unknown`] for an unknown `kind`
                /// or `preset`.
                pub fn with(&self, key: &str, value: impl Into<toml::Value>) -> Result<Self> {
                    let mut table = toml::Table::try_from(self).map_err(|error| Error::invalid($field, error, "an encoder"))?;
                    table.insert(key.to_owned(), value.into());
                    Self::try_from(table)
                }

                /// Format of the encoder's input.
                pub fn reads(&self) -> $Reads {
                    match self { $( Self::$Variant(config) => <$Module as Encoder>::reads(config), )+ }
                }

                /// Builds an encoder of this architecture.
                ///
                /// # Errors
                /// The errors of [`Encoder::new`].
                pub fn build(&self, init: &mut Init) -> Result<$Encoder> {
                    match self { $(
                        Self::$Variant(config) => Ok($Encoder::$Variant(Encoder::new(config, init)?)),
                    )+ }
                }
            }

            impl TryFrom<toml::Table> for $Config {
                type Error = Error;

                fn try_from(mut table: toml::Table) -> Result<Self> {
                    if let Some(preset) = table.remove("preset") {
                        let preset = Self::preset(preset.as_str().unwrap_or_default())?;
                        let mut full = toml::Table::try_from(preset).map_err(|error| Error::invalid($field, error, "an encoder"))?;
                        full.extend(table);
                        table = full;
                    }
                    let kind = table.remove("kind");
                    match kind.as_ref().and_then(toml::Value::as_str) {
                        $( Some($name) => Ok(Self::$Variant(read_config($field, table)?)), )+
                        other => Err(unknown_encoder($tower, other)),
                    }
                }
            }

            impl $Encoder {
                /// Width of the features.
                pub fn width(&self) -> usize {
                    match self { $( Self::$Variant(encoder) => encoder.width(), )+ }
                }

                /// Features `[B, width]`.
                ///
                /// # Errors
                /// The errors of [`Encoder::forward`].
                pub fn forward(&self, input: $Input) -> Result<Tensor<2>> {
                    match self { $( Self::$Variant(encoder) => encoder.forward(input), )+ }
                }

                /// Layer of each parameter.
                pub fn layer_ids(&self) -> LayerIds {
                    match self { $( Self::$Variant(encoder) => LayerIds::of(encoder, <$Module as Encoder>::BLOCKS), )+ }
                }

                /// Adds trainable low-rank updates to the weights that `config` selects. `section` names `config`
                /// in messages.
                ///
                /// # Errors
                /// The errors of [`LoraConfig::attach`].
                pub fn with_lora(self, section: &str, config: &LoraConfig, init: &mut Init) -> Result<Self> {
                    Ok(match self { $(
                        Self::$Variant(encoder) => {
                            let blocks = <$Module as Encoder>::BLOCKS;
                            Self::$Variant(config.attach(section, encoder, blocks, init)?)
                        }
                    )+ })
                }

                /// Hash that replaces the config in the identity of the encoder ([`Encoder::digest`]); `None`
                /// for an encoder that its config and its parameters identify.
                pub fn digest(&self) -> Option<String> {
                    match self { $( Self::$Variant(encoder) => encoder.digest(), )+ }
                }

                /// Constant tensors of the published state dict, by name.
                pub fn buffers(&self) -> Vec<(&'static str, WeightArray)> {
                    match self { $( Self::$Variant(encoder) => encoder.buffers(), )+ }
                }
            }
        )+
    };
}
pub(super) use encoders;
