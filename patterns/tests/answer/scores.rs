use patterns::answer::UnreadKind;
use patterns::answer::score;
use patterns::answer::score_out_of;

fn kind(text: &str) -> Result<f64, UnreadKind> {
    score(text).map_err(|unread| unread.kind())
}

#[test]
fn a_score_with_its_scale_is_read() {
    for (text, expected) in [
        ("<score>8/10</score>", 0.8),
        ("<score> 8 / 10 </score>", 0.8),
        ("<score>8,5/10</score>", 0.85),
        ("<score>7.5/10.0</score>", 0.75),
        ("<score>85 %</score>", 0.85),
        ("<score>85%.</score>", 0.85),
        ("<score>85 percent</score>", 0.85),
        ("<score>0.85</score>", 0.85),
        ("<score>1.0</score>", 1.0),
        ("<score>0/10</score>", 0.0),
        ("<score>4 out of 5</score>", 0.8),
        ("<score>4 of 5</score>", 0.8),
        ("<score>**8/10** - clear, 3 of 4 points met</score>", 0.8),
        ("<score>0.85 (3 of 4 tests pass)</score>", 0.85),
        ("<score>I give it 8/10</score>", 0.8),
        ("<score>8/10 (80 %)</score>", 0.8),
        ("<score>Score: 8/10</score>", 0.8),
        ("<score>８５％</score>", 0.85),
        ("<think><score>2/10</score></think><score>8/10</score>", 0.8),
        ("<score>8/10</score> ... <score>80%</score>", 0.8),
        ("Clear text.\nScore: 8/10", 0.8),
        ("**Rating:** 4 out of 5 - good", 0.8),
        ("{\"score\": \"8/10\"}", 0.8),
        ("{\n  \"score\": 0.85,\n  \"why\": \"12 of 14 hold\"\n}", 0.85),
        ("0.85", 0.85),
        ("The text is clear.\n\n8/10", 0.8),
    ] {
        assert_eq!(kind(text), Ok(expected), "{text}");
    }
}

#[test]
fn a_score_that_is_not_clear_is_refused() {
    for (text, expected) in [
        ("<score>high</score>", UnreadKind::UnknownLabel),
        ("<score>8</score>", UnreadKind::Ambiguous),
        ("<score>1</score>", UnreadKind::Ambiguous),
        ("<score>8.5</score>", UnreadKind::Ambiguous),
        ("<score>11/10</score>", UnreadKind::UnknownLabel),
        ("<score>120 %</score>", UnreadKind::UnknownLabel),
        ("<score>-0.5</score>", UnreadKind::UnknownLabel),
        ("<score>5/0</score>", UnreadKind::UnknownLabel),
        ("<score>7-8/10</score>", UnreadKind::Ambiguous),
        ("<score>7/10 or 8/10</score>", UnreadKind::Ambiguous),
        ("<score>at least 8/10</score>", UnreadKind::Ambiguous),
        ("<score>not 8/10</score>", UnreadKind::Ambiguous),
        ("<score>>80 %</score>", UnreadKind::Ambiguous),
        ("<score>3/4/2026</score>", UnreadKind::Ambiguous),
        ("<score>1,000/1,000</score>", UnreadKind::Ambiguous),
        ("<score>8/10</score><score>9/10</score>", UnreadKind::Ambiguous),
        ("<score></score>", UnreadKind::Missing),
        ("<score>8/1", UnreadKind::Truncated),
        ("I like it, 3/4 of the tests pass.", UnreadKind::Missing),
        ("Good work.", UnreadKind::Missing),
        ("", UnreadKind::Missing),
    ] {
        assert_eq!(kind(text), Err(expected), "{text}");
    }
}

#[test]
fn a_scale_from_the_caller_reads_bare_numbers() {
    let read = |text: &str| score_out_of(text, 10.0).map_err(|unread| unread.kind());
    assert_eq!(read("<score>8</score>"), Ok(0.8));
    assert_eq!(read("<score>8.5 - clear</score>"), Ok(0.85));
    assert_eq!(read("<score>10</score>"), Ok(1.0));
    assert_eq!(read("<score>4/5</score>"), Ok(0.8));
    assert_eq!(read("8"), Ok(0.8));
    assert_eq!(read("<score>11</score>"), Err(UnreadKind::UnknownLabel));
    assert_eq!(read("<score>0.85</score>"), Err(UnreadKind::Ambiguous));
    assert_eq!(score_out_of("<score>8</score>", f64::NAN).map_err(|u| u.kind()), Err(UnreadKind::Ambiguous));
}
