//! What a service says when it does not answer, read leniently: every service and every mock has its own shape of it.

use serde::Deserialize;
use serde_json::Value;

use super::kind_of_status;
use crate::error::{Error, ErrorKind, excerpt};

/// The kind of error that a type of the Messages API stands for, where there is no status: in a stream.
fn kind_of_type(kind: &str) -> ErrorKind {
    match kind {
        "invalid_request_error" | "request_too_large" => ErrorKind::InvalidRequest,
        "authentication_error" | "billing_error" => ErrorKind::Authentication,
        "permission_error" => ErrorKind::Permission,
        "not_found_error" => ErrorKind::NotFound,
        "rate_limit_error" => ErrorKind::RateLimited,
        "timeout_error" => ErrorKind::TimedOut,
        "overloaded_error" => ErrorKind::Overloaded,
        _ => ErrorKind::Server,
    }
}

/// The parts of an error's body that we use.
#[derive(Debug, Default)]
pub(crate) struct Failure {
    /// The type: `overloaded_error`.
    pub(crate) kind: Option<String>,
    /// The stable name, if there is one: `enforced_spend_limit_reached`.
    pub(crate) code: Option<String>,
    /// The status that the error itself names, where there is no other: `404`.
    pub(crate) status: Option<u16>,
    pub(crate) message: Option<String>,
    pub(crate) request_id: Option<String>,
}

impl Failure {
    /// Reads `{"error": {type, code, message, details}}`, `{"error": "text"}`, `{"message": "text"}`; anything else is
    /// an empty failure.
    pub(crate) fn read(body: &[u8]) -> Self {
        #[derive(Deserialize)]
        struct Wire {
            error: Option<Value>,
            message: Option<Value>,
            detail: Option<Value>,
            request_id: Option<String>,
        }
        let Ok(wire) = serde_json::from_slice::<Wire>(body) else { return Self::default() };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let error = wire.error.unwrap_or(Value::Null);
        // a number is the status and no name, also where a gateway writes it as a text
        let code = text(&error["code"]);
        let number = code.as_deref().and_then(|code| code.parse().ok()).or_else(|| error["code"].as_u64());
        Self {
            kind: text(&error["type"]),
            code: text(&error["details"]["error_code"]).or(code.filter(|_| number.is_none())),
            status: number.and_then(|code| u16::try_from(code).ok()),
            message: text(&error["message"])
                .or_else(|| text(&error))
                .or_else(|| wire.message.as_ref().and_then(text))
                .or_else(|| wire.detail.as_ref().and_then(text)),
            request_id: wire.request_id,
        }
    }

    /// The error. `status` is `None` in a stream, where the type alone says what it is.
    pub(crate) fn into_error(self, status: Option<u16>, wanted: &str) -> Error {
        let kind = self.error_kind(status);
        let message = match (&self.message, status) {
            (Some(message), _) => excerpt(message, 500),
            (None, Some(status)) => format!("{wanted} answered HTTP {status} and does not say why"),
            (None, None) => format!("{wanted} broke off and does not say why"),
        };
        let out_of_money = self.is_out_of_money();
        let message = match kind {
            _ if out_of_money => format!("{message}; trying again does not help, raise the limit or pay in"),
            ErrorKind::Authentication => format!("{message}; check the key"),
            ErrorKind::NotFound => format!("{message}; check the model's name and the base URL"),
            _ => message,
        };
        let mut error = Error::new(kind, message);
        if out_of_money {
            error = error.with_transient(false);
        } else if status == Some(409) {
            error = error.with_transient(true);
        }
        if let Some(status) = status {
            error = error.with_status(status);
        }
        if let Some(id) = self.request_id {
            error = error.with_request_id(id);
        }
        match self.code.or(self.kind) {
            Some(code) => error.with_code(code),
            None => error,
        }
    }

    fn error_kind(&self, status: Option<u16>) -> ErrorKind {
        let message = self.message.as_deref().unwrap_or_default();
        let code = self.code.as_deref().unwrap_or_default();
        if matches!(status, None | Some(400 | 413))
            && (message.starts_with("prompt is too long")
                || message.starts_with("litellm.ContextWindowExceededError")
                || code == "context_length_exceeded"
                || self.kind.as_deref() == Some("exceed_context_size_error"))
        {
            return ErrorKind::ContextWindow;
        }
        if self.is_out_of_money() && status != Some(429) {
            return ErrorKind::Authentication;
        }
        match status {
            None => match self.status {
                Some(status @ 400..600) => kind_of_status(status),
                _ => kind_of_type(self.kind.as_deref().unwrap_or_default()),
            },
            // some gateways wrap an overload in another status
            Some(500..) if self.kind.as_deref() == Some("overloaded_error") => ErrorKind::Overloaded,
            Some(status) => kind_of_status(status),
        }
    }

    /// A spend cap: it comes as a rate limit or as a bad request, but waiting does not lift it.
    fn is_out_of_money(&self) -> bool {
        const CAPS: [&str; 3] =
            ["enforced_spend_limit_reached", "contract_spend_limit_reached", "insufficient_quota"];
        [&self.code, &self.kind].into_iter().flatten().any(|name| CAPS.contains(&name.as_str()))
            || self
                .message
                .as_deref()
                .is_some_and(|text| text.starts_with("You have reached your specified API usage limits"))
    }
}
