"""A campaign's life: how it is made, what is asked next, what is shown of it and when it is erased."""
