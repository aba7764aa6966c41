//! All carriers of this build: two at the page's own port, and the others, which have ports of their own.

use serde_json::{Value, json};

use crate::carrier::{
    Carrier, CarrierGround, CarrierKind, MessagePromise, PageContender, PageSignal,
};

/// Carriers with ports of their own, in the order in which the page lists them.
pub(crate) const KINDS: &[&CarrierKind] = &[
    &crate::http2::KIND,
    &crate::webtransport::KIND,
    #[cfg(feature = "datachannel")]
    &crate::datachannel::KIND,
];

/// Contenders of the page's own port.
const OWN: &[PageContender] = &[
    PageContender {
        id: "websocket",
        label: "WebSocket",
        over: "TCP",
        promise: MessagePromise::Ordered,
    },
    PageContender {
        id: "fetch",
        label: "fetch, HTTP/1.1",
        over: "TCP",
        promise: MessagePromise::Unordered,
    },
];

/// Carriers of a server.
pub(crate) struct OpenCarriers(Vec<TriedCarrier>);

/// Carrier that is open, or the reason why it is not.
struct TriedCarrier {
    id: &'static str,
    open: Result<Box<dyn Carrier>, String>,
}

impl OpenCarriers {
    /// Opens all that can be opened here.
    pub(crate) fn open(ground: &CarrierGround) -> OpenCarriers {
        let tried = |kind: &&CarrierKind| TriedCarrier { id: kind.id, open: (kind.open)(ground) };
        OpenCarriers(KINDS.iter().map(tried).collect())
    }

    /// Returns the facts of the carriers for the page's script: by name, or the reason why one is not open.
    pub(crate) fn facts(&self) -> Value {
        let of = |tried: &TriedCarrier| {
            let facts = match &tried.open {
                Ok(open) => open.facts(),
                Err(why) => json!({ "missing": why }),
            };
            (tried.id.to_owned(), facts)
        };
        Value::Object(self.0.iter().map(of).collect())
    }

    /// Hands a message of the page to a carrier; `None` if there is none of this name.
    pub(crate) fn signal(
        &self,
        id: &str,
        signal: &PageSignal<'_>,
    ) -> Option<Result<String, String>> {
        let tried = self.0.iter().find(|tried| tried.id == id)?;
        Some(match &tried.open {
            Ok(open) => open.signal(signal),
            Err(why) => Err(why.clone()),
        })
    }
}

/// Returns every contender with the name of its carrier; the ones of the page's own port have none.
pub(crate) fn contenders() -> impl Iterator<Item = (&'static PageContender, Option<&'static str>)> {
    let others = KINDS
        .iter()
        .flat_map(|kind| kind.contenders.iter().map(|contender| (contender, Some(kind.id))));
    OWN.iter().map(|contender| (contender, None)).chain(others)
}

/// Returns the contenders for the page's script.
pub(crate) fn listed() -> Value {
    let of = |(contender, carrier): (&PageContender, Option<&str>)| {
        let mut listed = json!(contender);
        listed["of"] = carrier.into();
        listed
    };
    Value::Array(contenders().map(of).collect())
}
