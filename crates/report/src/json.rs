//! Readable JSON: top levels indented, a line per item of long lists.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter};

const DEEP: usize = 5;

pub(crate) fn json(value: &impl Serialize) -> Result<String, serde_json::Error> {
    let mut text = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut text, Shallow::default()))?;
    text.push(b'\n');
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[derive(Default)]
struct Shallow {
    depth: usize,
    indented: PrettyFormatter<'static>,
}

impl Shallow {
    fn begins(&mut self) -> bool {
        self.depth += 1;
        self.is_indented()
    }

    const fn is_indented(&self) -> bool {
        self.depth <= DEEP
    }

    fn separate<W: ?Sized + Write>(writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }
}

impl Formatter for Shallow {
    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        match self.begins() {
            true => self.indented.begin_array(writer),
            false => CompactFormatter.begin_array(writer),
        }
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        let indented = self.is_indented();
        self.depth -= 1;
        match indented {
            true => self.indented.end_array(writer),
            false => CompactFormatter.end_array(writer),
        }
    }

    fn begin_array_value<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        match self.is_indented() {
            true => self.indented.begin_array_value(writer, first),
            false => Self::separate(writer, first),
        }
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        match self.is_indented() {
            true => self.indented.end_array_value(writer),
            false => Ok(()),
        }
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        match self.begins() {
            true => self.indented.begin_object(writer),
            false => CompactFormatter.begin_object(writer),
        }
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        let indented = self.is_indented();
        self.depth -= 1;
        match indented {
            true => self.indented.end_object(writer),
            false => CompactFormatter.end_object(writer),
        }
    }

    fn begin_object_key<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        match self.is_indented() {
            true => self.indented.begin_object_key(writer, first),
            false => Self::separate(writer, first),
        }
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        match self.is_indented() {
            true => self.indented.end_object_value(writer),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json as value};

    use super::*;

    #[test]
    fn long_arrays_have_one_line_per_element() {
        let points = [value!({"at": 1, "late": [0.5, 2]}), value!({"at": 2, "late": []})];
        let report = value!({"streams": [{"latency": {"p50": null, "curve": points}}], "none": {}});
        let text = json(&report).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), report);
        assert!(text.contains("\n          {\"at\": 1, \"late\": [0.5, 2]},\n"), "{text}");
        assert!(text.starts_with("{\n  \"none\": {},\n") && text.ends_with("}\n"), "{text}");
    }
}
