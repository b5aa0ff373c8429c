"""How one policy is learned."""
