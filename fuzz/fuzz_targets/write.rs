//! What is written is read back byte for byte, and no text closes the element it is put into or is
//! read as a template.
#![no_main]

use libfuzzer_sys::fuzz_target;
use patterns::answer::fill;
use patterns::answer::tags;
use patterns::answer::unwrap_exact;
use patterns::answer::with_input;
use patterns::answer::wrap;

fuzz_target!(|text: &str| {
    let wrapped = wrap("input", text);
    assert_eq!(unwrap_exact(&wrapped), Some(text));
    let name = &wrapped[1..wrapped.find('>').expect("an open tag")];
    let followed = format!("{wrapped}\nAFTER IT");
    let read = tags(&followed, name).expect("one element");
    assert_eq!(read.len(), 1, "{wrapped}");
    assert!(text.contains("AFTER IT") || !read[0].contains("AFTER IT"), "{wrapped}");

    assert_eq!(fill("a {input} b {input}", "input", text), format!("a {text} b {text}"));
    assert!(with_input("Sum up.", text).ends_with(&wrapped));
    // a template is left alone, but for its places
    let kept = fill(text, "input", "{input}");
    assert_eq!(kept, text);
});
