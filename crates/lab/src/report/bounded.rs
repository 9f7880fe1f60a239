//! Bounded deserialized lists: an element needs more memory than its text, so surplus elements are
//! rejected first.

use core::fmt;
use core::marker::PhantomData;

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Maximum rows, and maximum parts of a row. No experiment has as many.
pub(crate) const MAX_ROWS: usize = 10_000;
pub(crate) const MAX_PARTS: usize = 1000;

pub(crate) fn rows<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    from.deserialize_seq(Bounded::<T>(MAX_ROWS, "rows", PhantomData))
}

pub(crate) fn stages<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    from.deserialize_seq(Bounded::<T>(MAX_PARTS, "stages", PhantomData))
}

struct Bounded<T>(usize, &'static str, PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Bounded<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.1)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Self::Value, A::Error> {
        let Self(maximum, what, _) = self;
        let mut kept = Vec::new();
        while let Some(one) = all.next_element()? {
            if kept.len() == maximum {
                return Err(A::Error::custom(format_args!("more than {maximum} {what}")));
            }
            kept.push(one);
        }
        Ok(kept)
    }
}
