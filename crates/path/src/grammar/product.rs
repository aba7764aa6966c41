//! Queues in multiples of the path's bandwidth-delay product: `queue=4bdp`. At the rate of its link such a queue takes so
//! many round trips to drain, so it becomes a time, `queue=80ms` where the delays of a round trip are 20 ms.

use super::{Carrier, parse};
use crate::files::ReadFile;
use crate::routes;
use deadheat_base::error::{Error, Result};
use deadheat_base::time::Nanos;
use deadheat_base::units::span_text;

/// Unit of such a queue.
const UNIT: &str = "bdp";

/// Range of the multiples.
const MULTIPLES: std::ops::RangeInclusive<f64> = 0.01..=1_000.0;

/// Queue that stands for any other until the round trip is known.
const ANY: &str = "1s";

/// Returns the multiple in the capacity of a queue as typed; `None` for a capacity in another unit.
///
/// # Errors
/// [`Error::Usage`] for a multiple that is no number, or out of range.
pub(super) fn multiple(typed: &str) -> Result<Option<f64>> {
    let Some(number) = typed.strip_suffix(UNIT) else { return Ok(None) };
    let is_plain = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let multiple = number.parse().ok().filter(|n| is_plain && MULTIPLES.contains(n));
    multiple.map(Some).ok_or_else(|| {
        Error::usage(format!(
            "queue `{typed}`: multiples of the bandwidth-delay product are {} to {}, as in queue=2bdp",
            MULTIPLES.start(),
            MULTIPLES.end()
        ))
    })
}

/// Returns the text of a path in which each such queue is a time; `None` if it has none. The round trip is that between
/// the near and the far host, by their first way, without jitter.
///
/// # Errors
/// [`Error::Usage`] for a multiple out of range, and if the path has no delay; others as of [`parse`].
pub(super) fn text(typed: &str, carrier: Carrier, read: ReadFile<'_>) -> Result<Option<String>> {
    let words = typed.split([',', '+', ':']).map(str::trim);
    let queues = words.filter_map(|word| {
        let (key, value) = word.split_once('=')?;
        (key.split('.').next_back() == Some("queue") && value.ends_with(UNIT)).then_some(value)
    });
    let mut queues: Vec<&str> = queues.collect();
    if queues.is_empty() {
        return Ok(None);
    }
    // Longer ones first, of which a shorter one may be the end.
    queues.sort_unstable_by_key(|value| std::cmp::Reverse(value.len()));
    let with = |time: &dyn Fn(f64) -> String| {
        queues.iter().try_fold(typed.to_owned(), |text, value| {
            let multiple = multiple(value)?.unwrap_or_default();
            Ok(text.replace(&format!("queue={value}"), &format!("queue={}", time(multiple))))
        })
    };
    let network = parse(&with(&|_| ANY.to_owned())?, carrier, read)?;
    let way = routes::round_ways(&network).into_iter().next();
    let delays = way.iter().flat_map(|way| way.up.iter().chain(&way.down)).map(|on| on.delay.0);
    let round_trip: u64 = delays.sum();
    if round_trip == 0 {
        return Err(Error::usage(format!(
            "path: `queue={}`: there is no delay between the near and the far host, so the product is 0; give a delay, or \
             the queue as a size (64kB)",
            queues[0]
        )));
    }
    with(&|multiple| span_text(Nanos((multiple * round_trip as f64).round() as u64))).map(Some)
}

#[cfg(test)]
mod tests {
    use crate::network::Network;

    #[test]
    fn a_queue_of_products_drains_in_as_many_round_trips() {
        for (typed, time) in [
            ("rate=50mbit,delay=10ms,queue=2bdp", "rate=50mbit,delay=10ms,queue=40ms"),
            ("rate=50mbit,delay=10ms,queue=0.5bdp", "rate=50mbit,delay=10ms,queue=10ms"),
            (
                "rate=1mbit,up.delay=40ms,up.queue=5bdp,down.queue=15bdp",
                "rate=1mbit,up.delay=40ms,up.queue=200ms,down.queue=600ms",
            ),
            (
                "a--b:delay=5ms + b--c:rate=9mbit,delay=20ms,jitter=1ms,queue=1.5bdp",
                "a--b:delay=5ms + b--c:rate=9mbit,delay=20ms,jitter=1ms,queue=75ms",
            ),
            (
                "dumbbell:rate=10mbit,delay=20ms|80ms,queue=1bdp",
                "dumbbell:rate=10mbit,delay=20ms|80ms,queue=40ms",
            ),
        ] {
            assert_eq!(Network::parse(typed).unwrap(), Network::parse(time).unwrap(), "{typed}");
        }
    }

    #[test]
    fn a_product_that_is_none_is_refused_with_what_would_be_one() {
        for (typed, said) in [
            ("rate=1mbit,queue=2bdp", "no delay between the near and the far host"),
            ("rate=1mbit,delay=1ms,queue=0bdp", "0.01 to 1000"),
            ("rate=1mbit,delay=1ms,queue=bdp", "0.01 to 1000"),
            ("rate=1mbit,delay=1ms,queue=-1bdp", "0.01 to 1000"),
            ("rate=1mbit,delay=1ms,queue=infbdp", "0.01 to 1000"),
            ("rate=1mbit,delay=1ms,queue=10000bdp", "0.01 to 1000"),
            ("delay=1ms,queue=2bdp", "it needs `rate` or `trace`"),
        ] {
            let error = Network::parse(typed).unwrap_err().to_string();
            assert!(error.contains(said), "{typed}: {error}");
        }
    }
}
