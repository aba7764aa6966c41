//! Reader that takes a struct from an object only. serde would take it from an array, too, and the program would have the
//! code of that for every saved type, though nothing writes such arrays.

use std::fmt;

use serde::Deserialize;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor,
};

/// Value that is read in this way.
pub struct ReadValue<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for ReadValue<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<ReadValue<T>, D::Error> {
        T::deserialize(MemberReader(from)).map(ReadValue)
    }
}

/// Any part of a reader, with the parts below it wrapped in the same way.
struct MemberReader<T>(T);

/// Forwards methods that read or visit a value without parts.
macro_rules! plain {
    ($($read:ident)*) => {
        $(#[inline]
        fn $read<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.0.$read(visitor)
        })*
    };
}

/// Forwards methods that read a value with parts.
macro_rules! with_parts {
    ($($read:ident($($value:ident: $type:ty),*);)*) => {
        $(#[inline]
        fn $read<V: Visitor<'de>>(
            self,
            $($value: $type,)*
            visitor: V,
        ) -> Result<V::Value, D::Error> {
            self.0.$read($($value,)* MemberReader(visitor))
        })*
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for MemberReader<D> {
    type Error = D::Error;

    plain! {
        deserialize_bool deserialize_char deserialize_str deserialize_string deserialize_bytes
        deserialize_byte_buf deserialize_unit deserialize_identifier deserialize_ignored_any
        deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128
        deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
        deserialize_f32 deserialize_f64
    }

    with_parts! {
        deserialize_any();
        deserialize_option();
        deserialize_seq();
        deserialize_map();
        deserialize_tuple(len: usize);
        deserialize_unit_struct(name: &'static str);
        deserialize_newtype_struct(name: &'static str);
        deserialize_tuple_struct(name: &'static str, len: usize);
        deserialize_enum(name: &'static str, variants: &'static [&'static str]);
    }

    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_map(MemberReader(visitor))
    }

    fn is_human_readable(&self) -> bool {
        self.0.is_human_readable()
    }
}

/// Forwards visits of a value without parts.
macro_rules! plain_visits {
    ($($visit:ident($($type:ty)?);)*) => {
        $(plain_visits! { one $visit($($type)?) })*
    };
    (one $visit:ident($type:ty)) => {
        #[inline]
        fn $visit<E: Error>(self, value: $type) -> Result<V::Value, E> {
            self.0.$visit(value)
        }
    };
    (one $visit:ident()) => {
        #[inline]
        fn $visit<E: Error>(self) -> Result<V::Value, E> {
            self.0.$visit()
        }
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for MemberReader<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    plain_visits! {
        visit_bool(bool);
        visit_char(char);
        visit_str(&str);
        visit_borrowed_str(&'de str);
        visit_string(String);
        visit_bytes(&[u8]);
        visit_borrowed_bytes(&'de [u8]);
        visit_byte_buf(Vec<u8>);
        visit_i64(i64);
        visit_i128(i128);
        visit_u64(u64);
        visit_u128(u128);
        visit_f64(f64);
        visit_none();
        visit_unit();
    }

    #[inline]
    fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<V::Value, D::Error> {
        self.0.visit_some(MemberReader(from))
    }

    #[inline]
    fn visit_newtype_struct<D: Deserializer<'de>>(self, from: D) -> Result<V::Value, D::Error> {
        self.0.visit_newtype_struct(MemberReader(from))
    }

    #[inline]
    fn visit_seq<A: SeqAccess<'de>>(self, parts: A) -> Result<V::Value, A::Error> {
        self.0.visit_seq(MemberReader(parts))
    }

    #[inline]
    fn visit_map<A: MapAccess<'de>>(self, parts: A) -> Result<V::Value, A::Error> {
        self.0.visit_map(MemberReader(parts))
    }

    #[inline]
    fn visit_enum<A: EnumAccess<'de>>(self, parts: A) -> Result<V::Value, A::Error> {
        self.0.visit_enum(MemberReader(parts))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for MemberReader<S> {
    type Value = S::Value;

    #[inline]
    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<S::Value, D::Error> {
        self.0.deserialize(MemberReader(from))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for MemberReader<A> {
    type Error = A::Error;

    #[inline]
    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_element_seed(MemberReader(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for MemberReader<A> {
    type Error = A::Error;

    /// The name of a member has no parts.
    #[inline]
    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        self.0.next_key_seed(seed)
    }

    #[inline]
    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.0.next_value_seed(MemberReader(seed))
    }

    fn size_hint(&self) -> Option<usize> {
        self.0.size_hint()
    }
}

impl<'de, A: EnumAccess<'de>> EnumAccess<'de> for MemberReader<A> {
    type Error = A::Error;
    type Variant = MemberReader<A::Variant>;

    #[inline]
    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, MemberReader<A::Variant>), A::Error> {
        self.0.variant_seed(seed).map(|(variant, parts)| (variant, MemberReader(parts)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for MemberReader<A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.0.unit_variant()
    }

    #[inline]
    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        self.0.newtype_variant_seed(MemberReader(seed))
    }

    #[inline]
    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.0.tuple_variant(len, MemberReader(visitor))
    }

    #[inline]
    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.0.struct_variant(fields, MemberReader(visitor))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Serialize;

    use super::*;
    use crate::json::{line, read};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Kind {
        Unit,
        One(Box<Inner>),
        Two(u8, String),
        Named { inner: Option<Inner> },
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Inner {
        number: f64,
        pair: (i8, bool),
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Outer {
        kinds: Vec<Kind>,
        by_number: BTreeMap<u16, Option<Inner>>,
        any: serde_json::Value,
        letter: char,
    }

    fn inner() -> Inner {
        Inner { number: -0.1, pair: (-3, true) }
    }

    #[test]
    fn what_serde_reads_is_read() {
        let two = Kind::Two(7, "µ\n".to_owned());
        let named = [Some(inner()), None].map(|inner| Kind::Named { inner });
        let mut kinds = vec![Kind::Unit, Kind::One(Box::new(inner())), two];
        kinds.extend(named);
        let by_number = BTreeMap::from([(1, None), (65_535, Some(inner()))]);
        let any = serde_json::json!({"a": [1, {"b": null}], "c": "d"});
        let outer = Outer { kinds, by_number, any, letter: 'x' };
        assert_eq!(read::<Outer>(&line(&outer).unwrap()).unwrap(), outer);
    }

    #[test]
    fn a_struct_is_an_object_and_its_errors_have_their_place() {
        let text = br#"{"number": 1, "pair": [1, true]}"#;
        assert_eq!(read::<Inner>(text).unwrap(), Inner { number: 1.0, pair: (1, true) });
        let said = read::<Inner>(b"[1, [1, true]]").map_err(|e| e.to_string()).unwrap_err();
        assert!(
            said.starts_with("invalid type: sequence, expected struct Inner at line 1"),
            "{said}"
        );
        let said = read::<Vec<Inner>>(b"[\n {\"number\": \"x\"}]").unwrap_err();
        assert_eq!((said.line(), said.column()), (2, 15));
        assert!(read::<Inner>(b"{} x").is_err());
    }
}
