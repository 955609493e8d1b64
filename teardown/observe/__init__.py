"""What the stack, its GPU and its host say of themselves while a run goes on."""
