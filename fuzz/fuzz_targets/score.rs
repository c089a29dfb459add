//! A score lies between 0 and 1, comes from a digit in the reply, and a scale never changes one that
//! the reply gives with its own.
#![no_main]

use libfuzzer_sys::fuzz_target;
use patterns::answer::score;
use patterns::answer::score_out_of;

fuzz_target!(|text: &str| {
    let bare = score(text);
    for read in [bare.clone(), score_out_of(text, 10.0), score_out_of(text, 1.0)].into_iter().flatten() {
        assert!((0.0..=1.0).contains(&read));
        assert!(!text.is_ascii() || text.bytes().any(|b| b.is_ascii_digit()));
    }
    // a score without a scale is a fraction or carries its own: on a scale of 1 it stays the same
    if let Ok(value) = bare {
        assert_eq!(score_out_of(text, 1.0), Ok(value));
    }
    // and the same text in the tag never reads as another score
    if !text.contains(['<', '&', '＜', '`', '~']) {
        let tagged = score(&format!("<score>{text}</score>"));
        if let (Ok(alone), Ok(tagged)) = (score(text), tagged) {
            assert!((alone - tagged).abs() < 1e-9, "{alone} alone, {tagged} in the tag");
        }
    }
});
