//! Which model answers, and why.

use patterns::providers::{Connection, Why, connect, connect_default};
use patterns::{Llm, Request, Result};

use crate::progress::Progress;
use crate::terminal::whisper;

/// Connects the model that was named, or the one that the environment stands for, and says which and why.
pub(crate) async fn get_ready(named: Option<&str>, quiet: bool, progress: &Progress) -> Result<Connection> {
    let (model, why) = match named {
        Some(name) => (connect(name)?, "named by --model".to_owned()),
        None => {
            let (model, why) = connect_default()?;
            let reason = match why {
                Why::NoKey => "no key is set, so a small model inside the program answers; \
                               set ANTHROPIC_API_KEY for Claude, or see --model"
                    .to_owned(),
                why => why.to_string(),
            };
            (model, reason)
        }
    };
    if !quiet {
        let name = model.model(&Request::default()).unwrap_or_else(|| model.provider().to_owned());
        whisper(&format!("model: {name} ({why})"));
    }
    let bar = progress.bytes("weights");
    let heard = bar.clone();
    let ready = model
        .prepare(move |now| {
            if let Some(total) = now.total {
                heard.set_length(total);
            }
            heard.set_position(now.done);
        })
        .await;
    bar.finish_and_clear();
    ready.map(|()| model)
}
