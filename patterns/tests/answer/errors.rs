use patterns::answer::UnreadKind;
use patterns::answer::label;
use patterns::answer::tag;

#[test]
fn an_error_shows_what_was_seen_and_what_was_wanted() {
    let error = label("<label>legal</label>", &["billing", "technical"]).unwrap_err();
    assert_eq!(error.kind(), UnreadKind::UnknownLabel);
    assert_eq!(error.wanted(), "<label> with one of billing, technical");
    assert_eq!(error.seen(), ["legal"]);
    let message = "no <label> with one of billing, technical in the reply, but \"legal\"; ask again";
    assert_eq!(error.to_string(), message);

    let error = tag("<answer>12</answer> Wait.\n<answer>13</answer>", "answer").unwrap_err();
    assert_eq!(error.kind(), UnreadKind::Ambiguous);
    assert_eq!(error.seen(), ["12", "13"]);
}

#[test]
fn a_message_is_one_bounded_line() {
    let long = "Line\none. ".repeat(50_000);
    for reply in
        [long.clone(), format!("<answer>{long}"), "<answer>a\n</answer><answer>b</answer>".repeat(1000)]
    {
        let error = tag(&reply, "answer").unwrap_err();
        let message = error.to_string();
        assert!(message.len() < 600 && !message.contains('\n'), "{message}");
    }
}

#[test]
fn a_cut_reply_asks_for_more_tokens_not_for_another_answer() {
    let error = tag("Sure.\n<answer>The three causes", "answer").unwrap_err();
    assert_eq!(error.kind(), UnreadKind::Truncated);
    assert_eq!(error.seen(), ["<answer>The three causes"]);
    assert!(error.to_string().contains("allow more tokens"));
}
