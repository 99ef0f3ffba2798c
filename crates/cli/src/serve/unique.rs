//! Rejects JSON objects with repeated field names, of which `serde_json` would silently keep only the last.

use std::collections::HashSet;
use std::fmt::{Formatter, Result as Written};

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Any JSON in which no object, at any depth, has a repeated field name.
pub(crate) struct UniqueFields;

impl<'de> Deserialize<'de> for UniqueFields {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(UniqueFields)
    }
}

impl<'de> Visitor<'de> for UniqueFields {
    type Value = UniqueFields;

    fn expecting(&self, out: &mut Formatter<'_>) -> Written {
        out.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self, A::Error> {
        while list.next_element::<UniqueFields>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self, A::Error> {
        let mut known = HashSet::new();
        while let Some(name) = object.next_key::<String>()? {
            if known.contains(&name) {
                return Err(Error::custom(format_args!("the field `{name}` is given twice")));
            }
            object.next_value::<UniqueFields>()?;
            known.insert(name);
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_fields_are_rejected() {
        let twice = |text: &str| serde_json::from_str::<UniqueFields>(text).err().map(|error| error.to_string());
        for text in ["1", "null", r#"{"a":{"a":[{"a":-1.5},{"a":"a"}]},"b":true}"#] {
            assert_eq!(twice(text), None, "{text}");
        }
        for text in [r#"{"a":1,"a":1}"#, r#"[{"b":{"a":1,"c":2,"\u0061":3}}]"#] {
            assert!(twice(text).is_some_and(|it| it.starts_with("the field `a` is given twice")), "{text}");
        }
    }
}
