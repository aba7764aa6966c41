//! Causes of lost messages in words.

use super::losses::Losses;
use deadheat_base::figures::percent;

/// Describes the effect of fragmentation, with every cause of loss and its share.
pub(super) fn fragmented(losses: &Losses) -> String {
    let Some((packets, parts)) = losses.in_fragments() else { return String::new() };
    let (label, size, mtu) = (&losses.label, packets.message_bytes, packets.path_mtu);
    let cut = format!(
        "{label} sends messages of {size} B in {parts} fragments each over a path MTU of {mtu} B \
         (at most {} B fit one packet), and one lost fragment loses the message",
        packets.largest_whole()
    );
    let (sent, lost) = (losses.sent, losses.lost);
    if lost == 0 {
        return format!("{cut}; none of {sent} was lost");
    }
    let mut causes = Vec::new();
    if losses.refused > 0 {
        causes.push(format!(
            "{} in the sending host's own queue, which had no room for a fragment",
            share(losses.refused, lost)
        ));
    }
    causes.push(in_flight(losses));
    if losses.dropped > 0 {
        causes.push(format!(
            "{} at the receiver's socket{}",
            share(losses.dropped, lost),
            room(losses)
        ));
    }
    if losses.elsewhere() > 0 {
        causes.push(format!("{} unexplained", share(losses.elsewhere(), lost)));
    }
    format!("{cut}; {lost} of {sent} were lost ({}): {}", share(lost, sent), causes.join("; "))
}

/// Describes the fragments that were lost in flight.
fn in_flight(losses: &Losses) -> String {
    let Some(together) = losses.reassembled else {
        return "how many for missing fragments, no counter shows".to_owned();
    };
    if losses.unassembled == 0 {
        return "none for missing fragments".to_owned();
    }
    let crowded = match losses.without_room {
        0 => String::new(),
        refused => format!(
            ", and {refused} of {} fragments found no room to wait for the others, as incomplete \
             messages filled net.ipv4.ipfrag_high_thresh",
            losses.fragments
        ),
    };
    format!(
        "{} for missing fragments (the receiving host put {together} messages together{crowded})",
        share(losses.unassembled, losses.lost)
    )
}

/// Describes the messages that the receiver had no room for, and their share of all losses.
pub(super) fn receive_buffer(losses: &Losses) -> String {
    let Losses { whose, sent, lost, dropped, .. } = losses;
    format!(
        "{dropped} of {sent} messages of {whose} ({}) were dropped at the receiver's socket{}; that \
         is {} of all it lost",
        share(*dropped, *sent),
        room(losses),
        share(*dropped, *lost)
    )
}

/// Describes the messages that the sender had no room for, and their share of all losses.
pub(super) fn send_queue(losses: &Losses) -> String {
    let Losses { whose, sent, lost, refused, .. } = losses;
    format!(
        "{refused} of {sent} messages of {whose} ({}) never left the sending host: the queue of its \
         device was full, though each call succeeded; that is {} of all it lost",
        share(*refused, *sent),
        share(*refused, *lost)
    )
}

fn room(losses: &Losses) -> String {
    let buffer = losses.buffer.as_ref();
    buffer.map_or_else(String::new, |size| format!(", whose buffer of {size} B was full"))
}

fn share(part: u64, whole: u64) -> String {
    percent(part as f64 / whole.max(1) as f64)
}
