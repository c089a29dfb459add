//! However a reply is cut, the stream gives the same preview, and the value of the whole.
#![no_main]

use libfuzzer_sys::fuzz_target;
use patterns::answer::TagStream;
use patterns::answer::tag;

fuzz_target!(|input: (Vec<u8>, &[u8])| {
    let (cuts, bytes) = input;
    let text = String::from_utf8_lossy(bytes);
    let mut whole = TagStream::new("answer");
    let shown = whole.push_bytes(bytes).to_owned();
    let mut stream = TagStream::new("answer");
    let mut preview = String::new();
    let mut rest = bytes;
    for cut in cuts {
        let (piece, after) = rest.split_at(usize::from(cut).min(rest.len()));
        preview.push_str(stream.push_bytes(piece));
        rest = after;
    }
    preview.push_str(stream.push_bytes(rest));
    assert_eq!(preview, shown);
    assert!(text.contains(&preview));
    assert_eq!(stream.finish(), tag(&text, "answer"));
    assert_eq!(whole.finish(), tag(&text, "answer"));
});
