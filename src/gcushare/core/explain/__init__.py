"""Why a request fits nowhere: the reasons with their numbers, and their text."""
