"""What a training will take before it is started: responses, hours, memory."""
