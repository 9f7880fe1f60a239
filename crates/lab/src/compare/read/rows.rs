//! Rows as they are read: a row takes more memory than the shortest text of one, so too many are refused before they
//! have been kept.

use core::fmt;

use serde::Deserializer;
use serde::de::{Error, SeqAccess, Visitor};

use super::{MOST_ROWS, ReadRow};

pub(super) fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<ReadRow>, D::Error> {
    from.deserialize_seq(Rows)
}

struct Rows;

impl<'de> Visitor<'de> for Rows {
    type Value = Vec<ReadRow>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("rows")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Self::Value, A::Error> {
        let mut rows = Vec::new();
        while let Some(row) = all.next_element()? {
            if rows.len() == MOST_ROWS {
                return Err(A::Error::custom(format_args!("more than {MOST_ROWS} rows")));
            }
            rows.push(row);
        }
        Ok(rows)
    }
}
