//! Properties of what comes from strangers: nothing of it makes these readers fail in other ways than by refusing.

mod hostile;
