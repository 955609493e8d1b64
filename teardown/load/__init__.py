"""Send a schedule and write down what came back, with a certificate of the sending itself."""
