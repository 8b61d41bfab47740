//! Rows that a page has of a view, and the updates to the current ones.

use std::collections::{HashMap, HashSet};

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

/// Row in the form that pages receive.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) key: String,
    /// Row as a JSON object, whose member `key` equals `key`.
    json: Box<RawValue>,
}

impl Row {
    /// Serializes a row; its member `key` must equal `key`.
    pub(crate) fn new(key: String, row: &impl Serialize) -> Row {
        // Serialising fails only for maps whose keys are not strings, and rows have none.
        Row { key, json: to_raw_value(row).unwrap_or_else(|_| RawValue::NULL.to_owned()) }
    }
}

/// Rows of a view that the page requested, in order, and the number of all matches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rows {
    pub(crate) total: usize,
    pub(crate) rows: Vec<Row>,
}

/// Message that updates a page's rows to the current ones.
#[derive(Serialize)]
struct Update<'a> {
    id: &'a str,
    /// Whether the page must discard the rows that it has.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    full: bool,
    total: usize,
    /// Keys of all rows, if their order has changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<&'a [String]>,
    /// New and changed rows, in full.
    set: Vec<Box<RawValue>>,
    /// Keys of removed rows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gone: Vec<String>,
}

/// State of a view as last sent to a page.
#[derive(Debug, Default)]
pub(crate) struct SentState {
    rows: HashMap<String, Box<RawValue>>,
    order: Vec<String>,
    total: usize,
    /// Last error message sent, if the view failed.
    last_error: Option<String>,
    any: bool,
}

impl SentState {
    /// Returns the message that updates the page to `rows`; `None` if it has them.
    pub(crate) fn update(&mut self, id: &str, rows: Rows) -> Option<String> {
        let full = !self.any || self.last_error.is_some();
        if full {
            *self = SentState::default();
        }
        let mut changed = Vec::new();
        let order: Vec<String> = rows.rows.iter().map(|row| row.key.clone()).collect();
        for Row { key, json } in rows.rows {
            if self.rows.get(&key).is_none_or(|known| known.get() != json.get()) {
                changed.push(json.clone());
                self.rows.insert(key, json);
            }
        }
        let gone = self.forget_all_but(&order);
        let moved = full || order != self.order;
        if !full && !moved && changed.is_empty() && gone.is_empty() && rows.total == self.total {
            return None;
        }
        let order_sent = moved.then_some(order.as_slice());
        let text = to_json(&Update { id, full, total: rows.total, order: order_sent, set: changed, gone });
        (self.order, self.total, self.any) = (order, rows.total, true);
        Some(text)
    }

    /// Returns the error message for a view that is unavailable; `None` if the page already has it.
    pub(crate) fn fail(&mut self, id: &str, why: &str) -> Option<String> {
        if self.last_error.as_deref() == Some(why) {
            return None;
        }
        *self = SentState { last_error: Some(why.to_owned()), any: true, ..SentState::default() };
        Some(failure(id, why))
    }

    fn forget_all_but(&mut self, keys: &[String]) -> Vec<String> {
        if self.rows.len() == keys.len() {
            return Vec::new();
        }
        let kept: HashSet<&str> = keys.iter().map(String::as_str).collect();
        let mut gone: Vec<String> =
            self.rows.keys().filter(|key| !kept.contains(key.as_str())).cloned().collect();
        gone.iter().for_each(|key| drop(self.rows.remove(key)));
        gone.sort_unstable();
        gone
    }
}

/// Serializes a value as JSON, for types whose serialization cannot fail.
pub(crate) fn to_json<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned())
}

/// Returns an error message for the request `id`.
pub(crate) fn failure<I: Serialize + ?Sized>(id: &I, error: &str) -> String {
    #[derive(Serialize)]
    struct Failure<'a, I: ?Sized> {
        id: &'a I,
        error: &'a str,
    }
    to_json(&Failure { id, error })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[derive(Serialize)]
    struct Shown<'a> {
        key: &'a str,
        load: u32,
    }

    fn rows(all: &[(&str, u32)]) -> Rows {
        let row = |&(key, load): &(&str, u32)| Row::new(key.to_owned(), &Shown { key, load });
        Rows { total: all.len(), rows: all.iter().map(row).collect() }
    }

    #[test]
    fn first_update_is_full_then_changes() {
        let mut sent = SentState::default();
        assert_eq!(
            sent.update("d", rows(&[("a", 1), ("b", 2)])).unwrap(),
            r#"{"id":"d","full":true,"total":2,"order":["a","b"],"set":[{"key":"a","load":1},{"key":"b","load":2}]}"#
        );
        assert_eq!(sent.update("d", rows(&[("a", 1), ("b", 2)])), None);
        assert_eq!(
            sent.update("d", rows(&[("a", 1), ("b", 3)])).unwrap(),
            r#"{"id":"d","total":2,"set":[{"key":"b","load":3}]}"#
        );
        assert_eq!(
            sent.update("d", rows(&[("b", 3), ("c", 1)])).unwrap(),
            r#"{"id":"d","total":2,"order":["b","c"],"set":[{"key":"c","load":1}],"gone":["a"]}"#
        );
        assert_eq!(
            sent.update("d", rows(&[("c", 1), ("b", 3)])).unwrap(),
            r#"{"id":"d","total":2,"order":["c","b"],"set":[]}"#
        );
        assert_eq!(
            sent.update("d", Rows { total: 9, ..rows(&[("c", 1), ("b", 3)]) }).unwrap(),
            r#"{"id":"d","total":9,"set":[]}"#
        );
    }

    #[test]
    fn empty_view_is_sent_once() {
        let mut sent = SentState::default();
        assert_eq!(
            sent.update("d", rows(&[])).unwrap(),
            r#"{"id":"d","full":true,"total":0,"order":[],"set":[]}"#
        );
        assert_eq!(sent.update("d", rows(&[])), None);
    }

    #[test]
    fn failure_is_sent_once_then_a_full_update() {
        let mut sent = SentState::default();
        sent.update("d", rows(&[("a", 1)]));
        assert_eq!(sent.fail("d", "no \"x\"").unwrap(), r#"{"id":"d","error":"no \"x\""}"#);
        assert_eq!(sent.fail("d", "no \"x\""), None);
        assert!(sent.update("d", rows(&[("a", 1)])).unwrap().contains("\"full\":true"));
    }

    proptest! {
        #[test]
        fn following_page_matches_the_state(
            states in prop::collection::vec(prop::collection::btree_map("[a-f]", 0_u32..3, 0..6), 1..8),
        ) {
            let mut sent = SentState::default();
            let mut page: HashMap<String, Value> = HashMap::new();
            let mut order: Vec<String> = Vec::new();
            for state in states {
                let all: Vec<(&str, u32)> = state.iter().map(|(key, load)| (key.as_str(), *load)).collect();
                if let Some(text) = sent.update("d", rows(&all)) {
                    let message: Value = serde_json::from_str(&text).unwrap();
                    if message["full"] == true {
                        page.clear();
                    }
                    for row in message["set"].as_array().unwrap() {
                        page.insert(row["key"].as_str().unwrap().to_owned(), row.clone());
                    }
                    for key in message["gone"].as_array().into_iter().flatten() {
                        page.remove(key.as_str().unwrap());
                    }
                    if let Some(keys) = message["order"].as_array() {
                        order = keys.iter().map(|key| key.as_str().unwrap().to_owned()).collect();
                    }
                }
                let has: Vec<(&str, u32)> =
                    order.iter().map(|key| (key.as_str(), page[key]["load"].as_u64().unwrap() as u32)).collect();
                prop_assert_eq!(has, all);
                prop_assert_eq!(page.len(), state.len());
            }
        }
    }
}
