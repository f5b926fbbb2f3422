"""What do requests and answers look like, whatever they are about? Bodies, pages, problems, addresses."""
