//! Reading TOML with its lines: every defect names the line and the key, and all are found in one go.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Something wrong in a flow file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Defect {
    /// The line, from 1.
    pub line: usize,
    /// The key that it is about, as a dotted path: `flow.when.label`.
    pub key: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        if !self.key.is_empty() {
            write!(f, "`{}`: ", self.key)?;
        }
        f.write_str(&self.message)
    }
}

/// The text of a file, and what was found wrong in it.
pub(crate) struct Source<'s> {
    text: &'s str,
    defects: RefCell<Vec<Defect>>,
}

impl<'s> Source<'s> {
    pub(crate) fn new(text: &'s str) -> Self {
        Self { text, defects: RefCell::default() }
    }

    pub(crate) fn text(&self) -> &'s str {
        self.text
    }

    pub(crate) fn line(&self, offset: usize) -> usize {
        self.text.as_bytes()[..offset.min(self.text.len())].iter().filter(|b| **b == b'\n').count() + 1
    }

    pub(crate) fn report(&self, offset: usize, key: &str, message: impl Into<String>) {
        let defect = Defect { line: self.line(offset), key: key.to_owned(), message: message.into() };
        let mut defects = self.defects.borrow_mut();
        if !defects.contains(&defect) {
            defects.push(defect);
        }
    }

    /// All defects, by line.
    pub(crate) fn into_defects(self) -> Vec<Defect> {
        let mut defects = self.defects.into_inner();
        defects.sort();
        defects
    }
}

/// A value with its key and its place.
#[derive(Clone)]
pub(crate) struct Value<'d, 's> {
    pub(crate) source: &'d Source<'s>,
    pub(crate) value: &'d Spanned<DeValue<'s>>,
    pub(crate) key: String,
}

impl<'d, 's> Value<'d, 's> {
    pub(crate) fn offset(&self) -> usize {
        self.value.span().start
    }

    pub(crate) fn report(&self, message: impl Into<String>) {
        self.source.report(self.offset(), &self.key, message);
    }

    fn wants<T>(&self, what: &str) -> Option<T> {
        self.report(format!("must be {what}, not {}", self.value.get_ref().type_str()));
        None
    }

    pub(crate) fn text(&self) -> Option<&'d str> {
        self.value.get_ref().as_str().or_else(|| self.wants("a text in quotes"))
    }

    pub(crate) fn as_text(&self) -> Option<&'d str> {
        self.value.get_ref().as_str()
    }

    /// A whole number of at least `least`.
    pub(crate) fn count(&self, least: usize) -> Option<usize> {
        let number =
            self.value.get_ref().as_integer().and_then(|n| usize::from_str_radix(n.as_str(), n.radix()).ok());
        match number {
            Some(number) if number >= least => Some(number),
            _ => self.wants(&format!("a whole number of at least {least}")),
        }
    }

    /// A number from `least` to `most`.
    pub(crate) fn number(&self, least: f64, most: f64) -> Option<f64> {
        let value = self.value.get_ref();
        let text = value
            .as_float()
            .map(toml::de::DeFloat::as_str)
            .or_else(|| value.as_integer().map(toml::de::DeInteger::as_str));
        match text.and_then(|text| text.parse::<f64>().ok()) {
            Some(number) if (least..=most).contains(&number) => Some(number),
            _ => self.wants(&format!("a number from {least} to {most}")),
        }
    }

    pub(crate) fn flag(&self) -> Option<bool> {
        self.value.get_ref().as_bool().or_else(|| self.wants("true or false"))
    }

    pub(crate) fn is_list(&self) -> bool {
        self.value.get_ref().is_array()
    }

    pub(crate) fn is_table(&self) -> bool {
        self.value.get_ref().is_table()
    }

    /// The items of a list; a single value counts as a list of one.
    pub(crate) fn items(&self) -> Vec<Self> {
        match self.value.get_ref().as_array() {
            Some(items) => items
                .iter()
                .enumerate()
                .map(|(n, value)| Self { value, key: format!("{}[{n}]", self.key), ..self.clone() })
                .collect(),
            None => vec![self.clone()],
        }
    }

    pub(crate) fn table(&self) -> Option<Table<'d, 's>> {
        match self.value.get_ref().as_table() {
            Some(table) => Some(Table::new(self.source, table, self.key.clone(), self.offset())),
            None => self.wants("a table"),
        }
    }
}

/// A table that remembers which keys were asked for, to name those that nobody knows.
pub(crate) struct Table<'d, 's> {
    source: &'d Source<'s>,
    table: &'d DeTable<'s>,
    key: String,
    offset: usize,
    known: RefCell<BTreeSet<String>>,
}

impl<'d, 's> Table<'d, 's> {
    pub(crate) fn new(source: &'d Source<'s>, table: &'d DeTable<'s>, key: String, offset: usize) -> Self {
        Self { source, table, key, offset, known: RefCell::default() }
    }

    /// The value of a key that may be missing.
    pub(crate) fn get(&self, key: &str) -> Option<Value<'d, 's>> {
        self.known.borrow_mut().insert(key.to_owned());
        let value = self.table.get(key)?;
        Some(Value { source: self.source, value, key: self.dotted(key) })
    }

    /// The value of a key that must be there.
    pub(crate) fn need(&self, key: &str, what: &str) -> Option<Value<'d, 's>> {
        let value = self.get(key);
        if value.is_none() {
            self.report(format!("needs `{key}`: {what}"));
        }
        value
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &'d str> {
        self.table.keys().map(|key| &**key.get_ref())
    }

    pub(crate) fn is_known(&self, key: &str) -> bool {
        self.known.borrow().contains(key)
    }

    pub(crate) fn report(&self, message: impl Into<String>) {
        self.source.report(self.offset, &self.key, message);
    }

    /// Reports at a key of this table.
    pub(crate) fn report_at(&self, key: &str, message: impl Into<String>) {
        let offset = self.table.get_key_value(key).map_or(self.offset, |(key, _)| key.span().start);
        self.source.report(offset, &self.dotted(key), message);
    }

    fn dotted(&self, key: &str) -> String {
        if self.key.is_empty() { key.to_owned() } else { format!("{}.{key}", self.key) }
    }

    /// Reports the keys that nobody asked for, each with the nearest that exists.
    pub(crate) fn finish(&self) {
        let known = self.known.borrow();
        for key in self.table.keys() {
            let name = &**key.get_ref();
            if !known.contains(name) {
                let mut message = "is no key here".to_owned();
                match nearest(name, known.iter().map(String::as_str)) {
                    Some(near) => message.push_str(&format!("; did you mean `{near}`?")),
                    None => {
                        let known: Vec<_> = known.iter().map(String::as_str).collect();
                        message.push_str(&format!("; there are: {}", known.join(", ")));
                    }
                }
                self.source.report(key.span().start, &self.dotted(name), message);
            }
        }
    }
}

/// The name that was probably meant.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|other| (strsim::damerau_levenshtein(name, other), other))
        .filter(|(distance, other)| *distance <= 1 + other.len() / 4)
        .min()
        .map(|(_, other)| other)
}
