//! Services that a contender prefers for its lanes, if the work does not require one: `enet:lane=best-effort`.
//! Every contender of the list takes the key, with the services that its transport offers, so that two services of
//! one transport can race each other.

use deadheat_base::error::{Error, Result, unknown};
use deadheat_base::spec::typed::Preset;
use deadheat_base::spec::{Key, Settings, Spec};
use deadheat_base::time::Nanos;
use deadheat_base::units::{parse_span, span_text};
use deadheat_contract::contract::{Delivery, Guarantees, Ordering, Service};

/// Form of a preference.
const FORM: &str = "usual|SERVICE[/SERVICE…]";

/// Key for the preference, which contenders take beside their own.
pub const KEYS: &[Key] = &[KEY];

const KEY: Key = Key::own("lane", FORM, |value| parse(value).map(drop))
    .or("usual")
    .doc("services of a lane, the most wanted first, where the work leaves them open: ordered, unordered, lifetime:TIME \
     (given up after that time), best-effort. Of several a lane has the first that its messages allow");

const LANE: Preset<Vec<Service>> = Preset::form(KEY, parse, Vec::new());

/// Words of the services, without a lifetime.
const WORDS: [(&str, Delivery, Ordering); 6] = [
    ("ordered", Delivery::Reliable, Ordering::Ordered),
    ("unordered", Delivery::Reliable, Ordering::Unordered),
    ("lifetime", Delivery::Within(Nanos::ZERO), Ordering::Unordered),
    ("lifetime-ordered", Delivery::Within(Nanos::ZERO), Ordering::Ordered),
    ("best-effort", Delivery::BestEffort, Ordering::Unordered),
    ("best-effort-ordered", Delivery::BestEffort, Ordering::Ordered),
];

/// Removes the key from the options that were typed for a contender with these guarantees.
///
/// # Errors
/// [`Error::Usage`] where the value is invalid, or the transport lacks the service.
pub fn take(spec: &mut Spec, promised: &Guarantees) -> Result<Vec<Service>> {
    let wanted = Settings::check(&spec.split_off(KEYS), KEYS)?.get(&LANE);
    promised.preferring(&wanted).map_err(|lacking| {
        let offered: Vec<String> = promised.offers().map(|offer| word(offer.service)).collect();
        Error::usage(format!(
            "{}: it has no lane that is {}; it has: {}",
            spec.name,
            word(lacking),
            offered.join(", ")
        ))
    })?;
    Ok(wanted)
}

/// Returns a contender as typed with these services preferred instead of its own preference; an empty list stands
/// for the usual service.
pub fn with(typed: &str, wanted: &[Service]) -> Result<String> {
    let mut spec = Spec::parse(typed)?;
    spec.split_off(KEYS);
    if !wanted.is_empty() {
        let words: Vec<String> = wanted.iter().map(|service| word(*service)).collect();
        spec.options.push((KEY.name.to_owned(), words.join("/")));
    }
    Ok(spec.to_string())
}

fn parse(value: &str) -> Result<Vec<Service>> {
    if value == KEY.default {
        return Ok(Vec::new());
    }
    let mut all: Vec<Service> = Vec::new();
    for typed in value.split('/') {
        let service = service(typed)?;
        if all.iter().any(|other| other.is_like(service)) {
            return Err(Error::usage(format!("`{typed}` is given twice in `{value}`")));
        }
        all.push(service);
    }
    Ok(all)
}

fn service(typed: &str) -> Result<Service> {
    let (name, time) = match typed.split_once(':') {
        Some((name, time)) => (name, Some(time)),
        None => (typed, None),
    };
    let Some((_, delivery, ordering)) = WORDS.iter().find(|(word, ..)| *word == name) else {
        return Err(unknown("service", name, &WORDS.map(|(word, ..)| word)));
    };
    let delivery = match (delivery, time) {
        (Delivery::Within(_), Some(time)) => Delivery::Within(parse_span(time)?),
        (Delivery::Within(_), None) => {
            return Err(Error::usage(format!("how long a lifetime? write {name}:100ms, say")));
        }
        (_, Some(_)) => {
            return Err(Error::usage(format!("`{name}` has no time; write {name} alone")));
        }
        (delivery, None) => *delivery,
    };
    Ok(Service { delivery, ordering: *ordering })
}

/// Returns a service as typed.
fn word(service: Service) -> String {
    let is_it = |(_, delivery, ordering): &&(&str, Delivery, Ordering)| {
        service.is_like(Service { delivery: *delivery, ordering: *ordering })
    };
    let word = WORDS.iter().find(is_it).map_or("", |(word, ..)| *word);
    match service.delivery {
        Delivery::Within(life) if life > Nanos::ZERO => format!("{word}:{}", span_text(life)),
        _ => word.to_owned(),
    }
}
