select auction, bidder, price, date_time from bid
