"""The learner: networks, rollouts, updates and the training loop of one policy per seed."""
