"""Do published experiments come out as they were published?"""
