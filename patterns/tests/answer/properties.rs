//! What holds for any text at all.

use patterns::answer;
use patterns::answer::TagStream;
use patterns::answer::UnreadKind;
use proptest::prelude::*;

const LABELS: [&str; 4] = ["billing", "technical", "C++", "needs work"];

/// Text made of the pieces that readers stumble over.
fn messy() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => prop::sample::select(vec![
            "<answer>", "</answer>", "<answer/>", "< answer >", "</ answer>", "<ANSWER a=\"", "<label>", "</label>",
            "<task>", "</task>", "<description>", "</description>", "<needs>", "<score>", "</score>", "<gate>",
            "</gate>", "<evaluation>", "</evaluation>", "<think>", "</think>", "</thinking>", "<b>", "</b>", "<!--",
            "-->", "<![CDATA[", "]]>", "```", "```xml\n", "~~~", "`", "``", "&lt;answer&gt;", "&lt;", "&amp;", "&#65;",
            "&", "<", ">", "</", "＜answer＞", "＜／answer＞", "\\", "\"", "'", "=", "\n", " ", "- ", "1. ", "Label: ",
            "Verdict: ", "billing", "technical", "C++", "not ", "but ", "or ", "FAIL", "PASS", "8/10", "85 %", "0.85",
            "\u{200B}", "\u{FEFF}", "İ", "é", "e\u{301}", "日本", "👩‍👧", ".", "…", "|", "*", "_",
        ]).prop_map(str::to_owned),
        1 => "[a-z ]{1,8}",
        1 => any::<char>().prop_map(|c| c.to_string()),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![4 => messy(), 1 => any::<String>()]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn no_text_makes_a_reader_panic(text in any_text(), name in "[a-z]{0,6}|answer|think|\\PC{0,4}") {
        let _ = answer::tag(&text, &name);
        let _ = answer::tags(&text, &name);
        let _ = answer::label_in(&text, &name, &LABELS);
        let _ = answer::verdict_in(&text, &name, &LABELS);
        let _ = answer::gate(&text, &name);
        let _ = answer::tasks(&text);
        let _ = answer::score(&text);
        let _ = answer::score_out_of(&text, 10.0);
    }

    #[test]
    fn tag_is_what_the_list_of_tags_agrees_on(text in any_text()) {
        let (one, all) = (answer::tag(&text, "answer"), answer::tags(&text, "answer"));
        match (one, all) {
            (Ok(value), Ok(all)) => prop_assert!(all.contains(&value)),
            (Err(unread), Ok(all)) if unread.kind() == UnreadKind::Missing => prop_assert!(all.is_empty()),
            (Err(unread), Ok(all)) => {
                prop_assert_eq!(unread.kind(), UnreadKind::Ambiguous);
                prop_assert!(all.len() > 1);
            }
            (Err(unread), Err(_)) => prop_assert_eq!(unread.kind(), UnreadKind::Truncated),
            // an unfinished open tag after the last element ends a list, not an answer
            (Ok(_), Err(unread)) => prop_assert_eq!(unread.kind(), UnreadKind::Truncated),
        }
    }

    #[test]
    fn a_label_is_one_of_the_allowed_and_named_in_the_reply(text in any_text()) {
        if let Ok(label) = answer::label(&text, &LABELS) {
            prop_assert!(LABELS.contains(&label));
            let letters = |text: &str| text.to_lowercase().chars().filter(|c| c.is_alphanumeric()).collect::<String>();
            prop_assert!(letters(&text).contains(&letters(label)));
        }
    }

    #[test]
    fn a_score_lies_between_0_and_1(text in any_text(), scale in any::<f64>()) {
        for score in [answer::score(&text), answer::score_out_of(&text, scale)].into_iter().flatten() {
            prop_assert!((0.0..=1.0).contains(&score));
        }
    }

    #[test]
    fn a_stream_gives_the_value_of_the_whole(text in any_text(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6)) {
        let bytes = text.as_bytes();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        let mut whole = TagStream::new("answer");
        let shown = whole.push(&text).to_owned();
        let mut stream = TagStream::new("answer");
        let mut preview = String::new();
        let mut at = 0;
        for cut in cuts.into_iter().chain([bytes.len()]) {
            preview.push_str(stream.push_bytes(&bytes[at..cut]));
            at = cut;
        }
        prop_assert_eq!(preview, shown);
        prop_assert_eq!(stream.finish(), answer::tag(&text, "answer"));
    }

    #[test]
    fn what_is_wrapped_comes_back_unchanged(text in any_text(), name in "[a-z][a-z0-9_-]{0,8}|input") {
        let wrapped = answer::wrap(&name, &text);
        prop_assert_eq!(answer::unwrap_exact(&wrapped), Some(&*text));
    }

    /// The reader agrees where the element ends: the text cannot close it.
    #[test]
    fn a_text_cannot_close_the_element_it_is_put_into(text in any_text()) {
        let wrapped = answer::wrap("answer", &text);
        let name = wrapped[1..].split_once('>').unwrap().0;
        let marked = format!("{wrapped}\nSecret");
        let read = answer::tags(&marked, name);
        prop_assert!(read.as_ref().is_ok_and(|all| all.len() == 1), "{wrapped:?} read as {read:?}");
        prop_assert!(!read.unwrap()[0].contains("Secret"));
    }

    #[test]
    fn plain_content_is_read_back_as_it_was_written(text in "[^<&`~]{0,60}") {
        let wrapped = answer::wrap("answer", &text);
        let read = answer::tag(&wrapped, "answer").unwrap();
        prop_assert!(text.contains(&read));
        let lost = text.replacen(&read, "", 1);
        prop_assert!(read.is_empty() || lost.chars().all(|c| c.is_whitespace() || !c.is_alphanumeric()));
    }

    #[test]
    fn a_filled_template_is_its_parts_joined(before in any::<String>(), after in any::<String>(), text in any_text()) {
        prop_assume!(!before.contains("{input}") && !after.contains("{input}") && !format!("{before}{after}").contains("{input}"));
        prop_assert_eq!(answer::fill(&format!("{before}{{input}}{after}"), "input", &text), format!("{before}{text}{after}"));
    }
}
