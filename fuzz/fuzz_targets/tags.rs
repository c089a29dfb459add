//! Elements stand in the reply in their order, and reading the list again gives the same list.
#![no_main]

use libfuzzer_sys::fuzz_target;
use patterns::answer::UnreadKind;
use patterns::answer::tags;

fuzz_target!(|text: &str| {
    match tags(text, "task") {
        Err(error) => assert_eq!(error.kind(), UnreadKind::Truncated),
        Ok(list) => {
            assert!(list.iter().map(String::len).sum::<usize>() <= text.len());
            if !text.contains('&') && !text.contains("<![CDATA[") {
                let mut rest = text;
                for content in &list {
                    let at = rest.find(content.as_str()).expect("the contents stand in the reply, in order");
                    rest = &rest[at + content.len()..];
                }
            }
        }
    }
});
