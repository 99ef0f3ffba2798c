//! The device that training and embedding run on.

use burn::tensor::Device;
use clap::ValueEnum;

/// Value of `--device`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum DeviceArg {
    /// The CPU, on all cores.
    #[default]
    Cpu,
    /// wgpu's default Vulkan adapter: a high-power GPU if there is one. `CUBECL_WGPU_DEFAULT_DEVICE` overrides the
    /// choice.
    #[cfg(feature = "vulkan")]
    Vulkan,
}

impl DeviceArg {
    pub(crate) fn open(self) -> Device {
        match self {
            Self::Cpu => Device::flex(),
            #[cfg(feature = "vulkan")]
            Self::Vulkan => Device::vulkan(burn::tensor::DeviceKind::DefaultDevice),
        }
    }
}
