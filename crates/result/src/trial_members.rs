//! Reader of a saved trial. Its own members and the members of its figures stand side by side in one object.
//!
//! serde's `flatten` would read them all into memory first, and then each type of the figures by a second reader, which
//! knows no line: the program would have the code of all these types twice.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Error, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::outcome::Trial;
use deadheat_records::trial::Record;

/// Members that belong to no figure.
#[derive(Debug, Default)]
struct OwnMembers {
    block: Option<u64>,
    order: Option<u64>,
    contender: Option<usize>,
    control: bool,
}

/// Members of the figures; the others go to `own` on the way.
struct FigureMembers<'a, A> {
    all: A,
    own: &'a mut OwnMembers,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for FigureMembers<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        while let Some(name) = self.all.next_key::<String>()? {
            match name.as_str() {
                "block" => self.own.block = Some(self.all.next_value()?),
                "order" => self.own.order = Some(self.all.next_value()?),
                "contender" => self.own.contender = Some(self.all.next_value()?),
                "control" => self.own.control = self.all.next_value()?,
                _ => return seed.deserialize(name.into_deserializer()).map(Some),
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.all.next_value_seed(seed)
    }
}

struct TrialVisitor;

impl<'de> Visitor<'de> for TrialVisitor {
    type Value = Trial;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a trial")
    }

    fn visit_map<A: MapAccess<'de>>(self, all: A) -> Result<Trial, A::Error> {
        let mut own = OwnMembers::default();
        let figures = FigureMembers { all, own: &mut own };
        let record = Record::deserialize(MapAccessDeserializer::new(figures))?;
        let missing = A::Error::missing_field;
        Ok(Trial {
            block: own.block.ok_or_else(|| missing("block"))?,
            order: own.order.ok_or_else(|| missing("order"))?,
            contender: own.contender.ok_or_else(|| missing("contender"))?,
            control: own.control,
            record,
        })
    }
}

impl<'de> Deserialize<'de> for Trial {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Trial, D::Error> {
        from.deserialize_map(TrialVisitor)
    }
}
