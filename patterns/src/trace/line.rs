//! One line of a trace. What every call tells is written by hand, since serde costs four times as much: a trace may not
//! slow down the run that it is to show.

use std::time::Duration;

use serde::Serialize;

use crate::event::{Event, used};
use crate::path::Path;

/// Appends the line of an event.
pub(super) fn event(line: &mut Vec<u8>, at: Duration, call: Option<u64>, path: &Path, event: &Event) {
    head(line, at, call, path);
    if !usual(line, event) {
        rest(line, event);
    }
    line.extend_from_slice(b"}\n");
}

/// Appends a line of something else that is written as an object.
pub(super) fn other(
    line: &mut Vec<u8>,
    at: Duration,
    call: Option<u64>,
    path: &Path,
    object: impl Serialize,
) {
    head(line, at, call, path);
    rest(line, object);
    line.extend_from_slice(b"}\n");
}

/// When and where.
fn head(line: &mut Vec<u8>, at: Duration, call: Option<u64>, path: &Path) {
    line.extend_from_slice(b"{\"t\":");
    number(line, at.as_secs());
    let mut micros = at.subsec_micros();
    let mut digits = *b".000000";
    for digit in digits[1..].iter_mut().rev() {
        *digit += u8::try_from(micros % 10).unwrap_or_default();
        micros /= 10;
    }
    line.extend_from_slice(&digits);
    if !path.is_root() {
        text(line, b",\"path\":", path.as_str());
    }
    if let Some(call) = call {
        count(line, b",\"call\":", call);
    }
}

/// The fields of an event that most calls have, in the order and the form of serde; false for any other.
fn usual(line: &mut Vec<u8>, event: &Event) -> bool {
    match event {
        Event::Sent => line.extend_from_slice(b",\"event\":\"sent\""),
        Event::FirstText => line.extend_from_slice(b",\"event\":\"first_text\""),
        Event::CallStarted { model: Some(model) } => {
            text(line, b",\"event\":\"call_started\",\"model\":", model);
        }
        Event::Waiting { why, seconds: None } => text(line, b",\"event\":\"waiting\",\"why\":", why),
        Event::BranchStarted { branch } => text(line, b",\"event\":\"branch_started\",\"branch\":", branch),
        Event::BranchEnded { branch, outcome, reason: None } => {
            text(line, b",\"event\":\"branch_ended\",\"branch\":", branch);
            text(line, b",\"outcome\":", outcome);
        }
        Event::CallEnded { model: Some(model), usage, cost, outcome, stop, error: None, reason: None } => {
            text(line, b",\"event\":\"call_ended\",\"model\":", model);
            line.extend_from_slice(b",\"usage\":{");
            let start = line.len();
            for (name, tokens) in used::fields(usage).into_iter().filter(|(_, tokens)| *tokens > 0) {
                line.extend_from_slice(if line.len() == start { b"\"" } else { b",\"" });
                line.extend_from_slice(name.as_bytes());
                count(line, b"\":", tokens);
            }
            line.push(b'}');
            if let Some(cost) = cost {
                line.extend_from_slice(b",\"cost\":");
                value(line, cost);
            }
            text(line, b",\"outcome\":", outcome);
            if let Some(stop) = stop {
                text(line, b",\"stop\":", stop);
            }
        }
        _ => return false,
    }
    true
}

/// The fields of an object, whatever they are.
fn rest(line: &mut Vec<u8>, object: impl Serialize) {
    let before = line.len();
    // no event fails to serialise; if one did, its time and its place would be left
    if serde_json::to_writer(&mut *line, &object).is_ok() && line.len() > before + 2 {
        line[before] = b',';
        line.pop(); // an object of its own until here
    } else {
        line.truncate(before);
    }
}

fn text(line: &mut Vec<u8>, key: &[u8], text: &str) {
    line.extend_from_slice(key);
    // without a branch, so that the compiler looks at many bytes at once
    let plain = text.bytes().fold(true, |plain, b| plain & (b >= b' ') & (b != b'"') & (b != b'\\'));
    if plain {
        line.push(b'"');
        line.extend_from_slice(text.as_bytes());
        line.push(b'"');
    } else {
        value(line, text);
    }
}

fn count(line: &mut Vec<u8>, key: &[u8], n: u64) {
    line.extend_from_slice(key);
    number(line, n);
}

fn number(line: &mut Vec<u8>, n: u64) {
    value(line, &n);
}

fn value(line: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    let _ = serde_json::to_writer(line, value); // into memory, and texts and numbers always can be
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::Usage;
    use proptest::prelude::*;
    use serde_json::Value;

    fn written(event: &Event, path: &Path) -> (String, String) {
        let at = Duration::from_micros(61_000_042);
        let (mut by_hand, mut by_serde) = (Vec::new(), Vec::new());
        super::event(&mut by_hand, at, Some(7), path, event);
        other(&mut by_serde, at, Some(7), path, event);
        let text = |line| String::from_utf8(line).unwrap_or_default();
        (text(by_hand), text(by_serde))
    }

    prop_compose! {
        fn usages()(n in prop::array::uniform7(prop_oneof![Just(0), any::<u64>()])) -> Usage {
            Usage {
                input_tokens: n[0],
                output_tokens: n[1],
                cache_write_5m_tokens: n[2],
                cache_write_1h_tokens: n[3],
                cache_read_tokens: n[4],
                thinking_tokens: n[5],
                web_searches: n[6],
            }
        }
    }

    fn events() -> impl Strategy<Value = Event> {
        let text = || "\\PC*|[ -~\"\\\\\n\t\u{0}\u{1b}é🐝]{0,12}";
        let some = move || prop::option::of(text());
        // of few digits: serde_json does not promise that a longer one is read to its last bit
        let number = || prop::option::of((0..1_000_000_000_u32).prop_map(|n| f64::from(n) / 1e6));
        prop_oneof![
            Just(Event::Sent),
            Just(Event::FirstText),
            Just(Event::Replayed),
            some().prop_map(|model| Event::CallStarted { model }),
            (text(), number()).prop_map(|(why, seconds)| Event::Waiting { why, seconds }),
            text().prop_map(|branch| Event::BranchStarted { branch }),
            (text(), text(), some()).prop_map(|(branch, outcome, reason)| Event::BranchEnded {
                branch,
                outcome,
                reason
            }),
            usages().prop_map(|usage| Event::Used { usage }),
            (some(), usages(), number(), text(), some(), some(), some()).prop_map(
                |(model, usage, cost, outcome, stop, error, reason)| Event::CallEnded {
                    model,
                    usage,
                    cost,
                    outcome,
                    stop,
                    error,
                    reason
                }
            ),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_by_hand_is_what_serde_writes(event in events(), path in "\\PC{0,20}|[ -~]{0,8}") {
            let path = Path::from(&*path);
            let (by_hand, by_serde) = written(&event, &path);
            prop_assert_eq!(&by_hand, &by_serde);
            let value: Value = serde_json::from_str(&by_hand).unwrap();
            prop_assert_eq!(value["t"].as_f64(), Some(61.000_042));
            prop_assert_eq!(value["path"].as_str().unwrap_or_default(), path.as_str());
            prop_assert_eq!(serde_json::from_value::<Event>(value).unwrap(), event);
        }
    }
}
