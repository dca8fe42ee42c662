//! What blocks of one length have in common: a program that allocates its matrices anew for each step uses the new block as it used
//! the last one of that length.

use super::prediction_error::PredictionError;
use crate::base::AllocId;

/// New blocks that may take over the history of the last block of their length, until that history is forgotten: if
/// calls on such blocks go to the host BLAS, no newer history replaces it. Doubles each time.
const HEIRS: u32 = 32;
const HEIRS_MAX: u32 = 1 << 16;

/// What is known of blocks of one length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alike {
    /// The prediction error of devices' use of blocks of the length, as learned last.
    pub(super) prediction_error: PredictionError,
    /// The last block of the length that devices left a result in, how many new blocks have taken over its history
    /// since, and how many may.
    last: Option<AllocId>,
    heirs: u32,
    patience: u32,
}

impl Default for Alike {
    fn default() -> Self {
        Alike {
            prediction_error: PredictionError::NONE,
            last: None,
            heirs: 0,
            patience: HEIRS,
        }
    }
}

impl Alike {
    /// The block whose history a new block may take over.
    pub(super) fn last(&mut self) -> Option<AllocId> {
        self.heirs += 1;
        if self.heirs > self.patience {
            (self.last, self.heirs) = (None, 0);
            self.patience = (self.patience * 2).min(HEIRS_MAX);
        }
        self.last
    }

    /// Devices left a result in the block `id`: the next new blocks of its length take over its history.
    pub(super) fn left(&mut self, id: AllocId) {
        (self.last, self.heirs) = (Some(id), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_block_taught_is_forgotten_where_nothing_new_is_learned() {
        let (mut alike, id) = (Alike::default(), AllocId(1));
        assert_eq!(alike.last(), None);
        for patience in [HEIRS, 2 * HEIRS] {
            alike.left(id);
            let heirs = (0..HEIRS_MAX)
                .take_while(|_| alike.last().is_some())
                .count();
            assert_eq!(heirs, patience as usize);
        }
    }
}
