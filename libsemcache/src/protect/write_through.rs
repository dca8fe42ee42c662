//! The write-through gate, which traps no access: results are copied to the host before the call returns, inputs are
//! sent again or compared.

use super::{Gate, GateError};
use crate::base::Access;

/// A gate without a mechanism, for memory or systems where protection cannot be used.
#[derive(Clone, Copy, Default, Debug)]
pub struct WriteThroughGate;

impl Gate for WriteThroughGate {
    fn apply(&self, _addr: usize, _len: usize, _access: Access) -> Result<(), GateError> {
        Ok(())
    }

    fn restrict(
        &self,
        _addr: usize,
        _len: usize,
        _access: Access,
        _in_use: &dyn Fn() -> bool,
    ) -> Result<(), GateError> {
        Ok(())
    }

    fn forget(&self, _addr: usize, _len: usize) {}

    fn traps(&self) -> bool {
        false
    }

    fn closes(&self) -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn does_nothing_and_says_so() {
        let gate = WriteThroughGate;
        assert_eq!(gate.apply(1, 1, Access::None), Ok(()));
        assert!(!gate.traps());
        assert_eq!(gate.closes(), 0);
    }
}
