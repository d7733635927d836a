"""The learner: minibatches, gradients, optimizers, and a guard against NaN."""

__all__: list[str] = []
