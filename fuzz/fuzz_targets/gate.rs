//! A text without the word never stops the chain, and a first line that is the word always does.
#![no_main]

use libfuzzer_sys::fuzz_target;
use patterns::answer::UnreadKind;
use patterns::answer::gate;

fuzz_target!(|text: &str| {
    match gate(text, "FAIL") {
        Ok(true) => assert!(!text.is_ascii() || text.contains('&') || text.to_lowercase().contains("fail")),
        Ok(false) => assert!(!text.trim().is_empty()),
        Err(error) => assert!(matches!(error.kind(), UnreadKind::Missing | UnreadKind::Truncated)),
    }
    if !text.contains(['<', '&', '＜']) {
        assert_eq!(gate(&format!("FAIL\n{text}"), "FAIL"), Ok(true));
        assert_eq!(gate(&format!("<gate>FAIL</gate>\n{text}"), "FAIL"), Ok(true));
    }
});
