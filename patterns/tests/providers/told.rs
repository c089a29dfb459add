//! What a provider tells before its reply is over.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use patterns::{Event, Llm, OnEvent, OnText, Request, Usage};
use tokio::time::sleep;

use crate::server::*;

/// A request, and what is told of it.
fn request() -> (Request, Arc<Mutex<Vec<Event>>>) {
    let told = Arc::<Mutex<Vec<Event>>>::default();
    let record = Arc::clone(&told);
    let on_event = OnEvent::new(move |_, event| record.lock().unwrap().push(event.clone()));
    (Request { on_event: Some(on_event), ..Request::new("?") }, told)
}

#[tokio::test]
async fn a_stream_tells_at_its_start_what_the_prompt_has_used() {
    let start = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"usage\":\
                 {\"input_tokens\":20,\"output_tokens\":1,\"cache_read_input_tokens\":7}}}\n\n";
    let mut steps = stream(start);
    steps.push(FOR_EVER);
    let server = Server::always(steps).await;
    let (mut request, told) = request();
    request.on_text = Some(OnText::unseen());
    let claude = server.claude();
    // dropped before its end, as a vote does that is decided
    let heard = async {
        while told.lock().unwrap().is_empty() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::select! {
        () = heard => {}
        end = claude.call(request) => panic!("{end:?}"),
    }
    let usage = Usage { input_tokens: 20, output_tokens: 1, cache_read_tokens: 7, ..Usage::default() };
    assert_eq!(*told.lock().unwrap(), [Event::Used { usage }]);
}

#[tokio::test]
async fn a_response_tells_of_a_limit_of_which_nothing_is_left() {
    let reset = humantime::format_rfc3339_seconds(SystemTime::now() + Duration::from_secs(3_000));
    let headers = format!(
        "content-type: application/json\r\n\
         anthropic-ratelimit-requests-remaining: 0\r\nanthropic-ratelimit-requests-reset: {reset}\r\n\
         anthropic-ratelimit-input-tokens-remaining: 12000\r\nanthropic-ratelimit-input-tokens-reset: {reset}\r\n\
         anthropic-ratelimit-output-tokens-remaining: 0\r\nanthropic-ratelimit-output-tokens-reset: soon\r\n"
    );
    let server = Server::always(response(200, &headers, &message("done").to_string())).await;
    let (request, told) = request();
    server.claude().call(request).await.unwrap();
    let told = told.lock().unwrap();
    let [Event::Quota { what, remaining: 0, resets_in }] = told.as_slice() else { panic!("{told:?}") };
    assert_eq!(what, "requests");
    assert!((2_900.0..=3_000.0).contains(resets_in), "{resets_in}");
}
