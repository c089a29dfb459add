//! The content of a tag stands in the reply, raw or decoded, and the list of tags agrees with it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use patterns::answer::UnreadKind;
use patterns::answer::tag;
use patterns::answer::tags;

fuzz_target!(|text: &str| {
    let list = tags(text, "answer");
    match tag(text, "answer") {
        Ok(value) => {
            assert_eq!(value.trim_end(), value);
            let decoded = text.contains('&') || text.contains("<![CDATA[");
            assert!(decoded || text.contains(&value), "{value:?} is not in the reply");
            assert!(value.len() <= text.len());
            assert!(list.map_or_else(|e| e.kind() == UnreadKind::Truncated, |list| list.contains(&value)));
        }
        Err(error) => {
            assert!(error.to_string().len() < 1000);
            match error.kind() {
                UnreadKind::Missing => assert!(list.is_err() || list == Ok(Vec::new())),
                UnreadKind::Truncated => assert!(list.is_err()),
                UnreadKind::Ambiguous => assert!(list.is_err() || list.is_ok_and(|list| list.len() > 1)),
                UnreadKind::UnknownLabel => panic!("a tag has no labels"),
            }
        }
    }
});
