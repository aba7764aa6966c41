//! Answers to offers of pages (JSEP, RFC 8829; SDP for data channels, RFC 8841).

use std::net::SocketAddr;
use std::time::Instant;

use str0m::change::SdpOffer;
use str0m::net::Protocol;
use str0m::{Candidate, Rtc, RtcConfig};

use crate::work::LONGEST;

/// Longest offer in bytes; one with a data channel alone has about 1,000.
const LONGEST_OFFER: usize = 16 * 1024;

/// Bytes of a session that may wait until they are acknowledged.
pub(super) const WINDOW: usize = 1 << 20;

/// Returns the session that an offer asks for, with an end at these addresses, and the answer.
///
/// # Errors
/// With a sentence for the page.
pub(super) fn answer(
    offer: &str,
    ends: &[SocketAddr],
    now: Instant,
) -> Result<(Rtc, String), String> {
    check(offer)?;
    let offer = SdpOffer::from_sdp_string(offer)
        .map_err(|error| format!("the offer cannot be read: {error}"))?;
    let mut rtc = RtcConfig::new()
        .clear_codecs()
        .set_ice_lite(true)
        .set_sctp_max_buffered_amount(WINDOW)
        .set_sctp_max_message_size(LONGEST as u32)
        .build(now);
    for end in ends {
        let candidate = Candidate::host(*end, Protocol::Udp)
            .map_err(|error| format!("no browser reaches the address {end}: {error}"))?;
        rtc.add_local_candidate(candidate);
    }
    let answer = rtc
        .sdp_api()
        .accept_offer(offer)
        .map_err(|error| format!("the offer cannot be taken: {error}"))?;
    Ok((rtc, answer.to_sdp_string()))
}

/// Checks that an offer is short, and is about data channels alone.
fn check(offer: &str) -> Result<(), String> {
    if offer.len() > LONGEST_OFFER {
        return Err(format!("the offer is longer than {LONGEST_OFFER} bytes"));
    }
    let mut media = offer.lines().filter_map(|line| line.strip_prefix("m="));
    match (media.next(), media.next()) {
        (Some(first), None) if first.starts_with("application ") => Ok(()),
        _ => Err("the offer has to be about data channels, and nothing else".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn at() -> [SocketAddr; 1] {
        [(Ipv4Addr::LOCALHOST, 5_210).into()]
    }

    fn refusal(offer: &str) -> String {
        answer(offer, &at(), Instant::now()).err().unwrap()
    }

    #[test]
    fn an_offer_of_anything_but_data_channels_is_refused_with_the_reason() {
        let long = "a".repeat(LONGEST_OFFER + 1);
        for (offer, why) in [
            ("", "about data channels"),
            ("v=0\r\nm=audio 9 UDP/TLS/RTP/SAVPF 111\r\n", "about data channels"),
            ("m=application 9 a b\r\nm=application 9 a b\r\n", "about data channels"),
            ("m=application 9 UDP/DTLS/SCTP webrtc-datachannel\r\n", "cannot be read"),
            (&long, "longer than"),
        ] {
            let said = refusal(offer);
            assert!(said.contains(why), "{why}: {said}");
        }
    }

    #[test]
    fn any_piece_of_an_offer_is_answered_or_refused() {
        let mut near = Rtc::new(Instant::now());
        let mut api = near.sdp_api();
        api.add_channel("deadheat".to_owned());
        let offer = api.apply().unwrap().0.to_sdp_string();
        let (_, text) = answer(&offer, &at(), Instant::now()).unwrap();
        assert!(text.contains("127.0.0.1 5210") && text.contains("a=ice-lite"), "{text}");
        // A line left out, and a line cut short.
        let lines: Vec<&str> = offer.lines().collect();
        for without in 0..lines.len() {
            for cut in [0, lines[without].len() / 2] {
                let mut others = lines.clone();
                others[without] = &lines[without][..cut];
                others.retain(|line| !line.is_empty());
                let _ = answer(&others.join("\r\n"), &at(), Instant::now());
            }
        }
    }
}
