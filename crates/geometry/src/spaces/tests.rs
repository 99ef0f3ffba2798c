#![allow(clippy::unwrap_used)]

mod accuracy;
mod formulas;
mod oracle;
