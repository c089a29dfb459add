//! Moments.

use std::time::Duration;

use tokio::time::Instant;

/// The moment after this time. One that the clock cannot tell, as after [`Duration::MAX`], is some decades away.
pub(crate) fn after(time: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(time).unwrap_or_else(|| now + Duration::from_secs(1_000_000_000))
}
