use patterns::answer;
use patterns::answer::TagStream;
use serde_json::Value;

use crate::cases;
use crate::cases::Case;
use crate::cases::shown;
use crate::cases::text;

/// Every case that reads one tag, streamed or not; the very long ones are cut in fewer places.
fn tag_cases() -> Vec<Case> {
    let mut cases = cases::all();
    cases.retain(|case| matches!(case.op.as_str(), "tag" | "stream"));
    cases
}

fn stream<'p>(name: &str, pieces: impl IntoIterator<Item = &'p str>) -> (String, Value) {
    let mut stream = TagStream::new(name);
    let mut preview = String::new();
    for piece in pieces {
        preview.push_str(stream.push(piece));
    }
    (preview, shown(stream.finish()))
}

fn stream_bytes<'p>(name: &str, pieces: impl IntoIterator<Item = &'p [u8]>) -> (String, Value) {
    let mut stream = TagStream::new(name);
    let mut preview = String::new();
    for piece in pieces {
        preview.push_str(stream.push_bytes(piece));
    }
    (preview, shown(stream.finish()))
}

#[test]
fn the_pieces_of_the_corpus_read_as_expected() {
    for case in tag_cases().iter().filter(|case| case.op == "stream" && !case.debatable) {
        if let Value::Array(pieces) = &case.input {
            let pieces: Vec<String> = pieces.iter().map(text).collect();
            let (_, value) = stream(&case.tag, pieces.iter().map(String::as_str));
            assert_eq!(value, case.expected, "{}", case.id);
        }
    }
}

/// Also inside a character, also of the debatable cases: neither value nor preview depends on the cut.
#[test]
fn every_split_gives_the_value_of_the_whole() {
    let mut splits = 0;
    for case in tag_cases() {
        let reply = case.reply();
        let bytes = reply.as_bytes();
        let whole = shown(answer::tag(&reply, &case.tag));
        let (preview, value) = stream(&case.tag, [&*reply]);
        assert_eq!(value, whole, "{} in one piece", case.id);
        // long replies are cut in a few places only
        let step = if bytes.len() < 5_000 { 1 } else { bytes.len() / 3 };
        for cut in (0..=bytes.len()).step_by(step) {
            let (first, second) = bytes.split_at(cut);
            assert_eq!(
                stream_bytes(&case.tag, [first, second]),
                (preview.clone(), whole.clone()),
                "{} cut at {cut}",
                case.id
            );
            splits += 1;
        }
        if bytes.len() < 5_000 {
            let each = stream_bytes(&case.tag, bytes.chunks(1));
            assert_eq!(each, (preview, whole), "{} byte by byte", case.id);
        }
    }
    println!("{splits} splits");
}

#[test]
fn the_preview_of_a_plain_element_is_its_content() {
    let reply = "Hm.\n<think>x <answer>no</answer></think>\n<answer>\n i < n, <b>5</b> & <answer>in</answer> \n</answer> bye";
    let (preview, value) = stream("answer", [reply]);
    assert_eq!(preview, "i < n, <b>5</b> & <answer>in</answer>");
    assert_eq!(value, preview);
}

#[test]
fn the_preview_holds_back_only_what_could_be_the_close_tag() {
    let mut stream = TagStream::new("answer");
    assert_eq!(stream.push("<answer>  one "), "one");
    assert_eq!(stream.push("two </ans"), " two");
    assert_eq!(stream.push("chor> <3 "), " </anschor> <3");
    assert_eq!(stream.push("x <"), " x");
    assert_eq!(stream.push(&"y".repeat(300)).len(), 302);
    assert_eq!(stream.push("</answer>"), "");
    assert_eq!(stream.push("<answer>more"), "");
}

#[test]
fn bytes_that_are_no_text_become_replacement_characters() {
    let bytes = b"<answer>a\xFFb\xE2\x82</answer>\xF0\x9F";
    let lossy = String::from_utf8_lossy(bytes);
    for cut in 0..=bytes.len() {
        let (first, second) = bytes.split_at(cut);
        let (_, value) = stream_bytes("answer", [first, second]);
        assert_eq!(value, answer::tag(&lossy, "answer").unwrap(), "cut at {cut}");
    }
}
