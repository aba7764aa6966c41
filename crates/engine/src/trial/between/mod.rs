//! Processes between or beside the two ends of a trial: the relay, the TURN client and server, and the keepers of
//! external commands.

pub(super) mod external;
pub(super) mod relay;
pub mod turn;
