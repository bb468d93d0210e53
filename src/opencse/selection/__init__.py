"""What an encoder is worth on somebody's own text: parts held out, questions made of them, and who answers better."""
