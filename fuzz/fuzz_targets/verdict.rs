//! A verdict is one of the words, never a negated one, and reading is stricter than for a label.
#![no_main]

use libfuzzer_sys::fuzz_target;
use patterns::answer::label_in;
use patterns::answer::verdict;

const WORDS: [&str; 3] = ["PASS", "NEEDS_IMPROVEMENT", "FAIL"];

fuzz_target!(|text: &str| {
    if let Ok(word) = verdict(text, &WORDS) {
        assert!(WORDS.contains(&word));
        if text.contains("<evaluation>") {
            // in the tag, what is clear enough for a verdict is clear enough for a label
            let label = label_in(text, "evaluation", &WORDS);
            assert!(label.is_err() || label == Ok(word));
        }
    }
    // whatever the sentence is, its negation gives no verdict
    let clean: String = text.chars().filter(|c| c.is_ascii_lowercase() || *c == ' ').take(20).collect();
    let words = clean.split_whitespace().filter(|word| !matches!(*word, "pass" | "fail" | "but")).take(2);
    let between = words.collect::<Vec<_>>().join(" ");
    let negated = format!("<evaluation>It does not {between} PASS</evaluation>");
    assert!(verdict(&negated, &WORDS).is_err(), "{negated}");
});
