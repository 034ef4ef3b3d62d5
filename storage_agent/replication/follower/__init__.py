"""The follower: stores replicas of other sites' streams at this site."""
