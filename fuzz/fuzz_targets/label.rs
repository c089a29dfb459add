//! A label is one of the allowed ones, the reply names it, and the order of the allowed ones does not matter.
#![no_main]

use libfuzzer_sys::fuzz_target;
use patterns::answer::label;

const LABELS: [&str; 6] = ["billing", "technical", "C++", "needs work", "bug", "bug-report"];

fn letters(text: &str) -> String {
    text.to_lowercase().chars().filter(char::is_ascii_alphanumeric).collect()
}

fuzz_target!(|text: &str| {
    let mut reversed = LABELS;
    reversed.reverse();
    let read = label(text, &LABELS).map_err(|error| error.kind());
    assert_eq!(read, label(text, &reversed).map_err(|error| error.kind()));
    if let Ok(label) = read {
        assert!(LABELS.contains(&label));
        assert!(!text.is_ascii() || text.contains('&') || letters(text).contains(&letters(label)));
        // one label fewer, and it is not read
        let others: Vec<&str> = LABELS.into_iter().filter(|&other| other != label).collect();
        assert_ne!(patterns::answer::label(text, &others).ok(), Some(label));
    }
});
