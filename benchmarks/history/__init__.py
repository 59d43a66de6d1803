"""What change detection reports of histories whose truth is known, beside asv's and Otava's on the same ones."""
